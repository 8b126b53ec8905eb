/*
 * Memory of one process that another uses, too.
 *
 *   share KIND UNIT_MIB [LIMITS_DIR USAGE_DIR]
 *
 * The maker takes until it is refused, exports all of it, and runs itself once more as the importer: in its own container, or
 * in the one with these directories. Each says at moments of note, by a JSON line, how many blocks it has, its last call's
 * result, and what it is charged and was given by the simulated driver.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "route.h"

#define BLOCKS_MAX 512
#define MIB (1ull << 20)

/* What the importer is told of a block. Descriptors it inherits, under the same numbers. */
struct message {
	uint64_t bytes;
	int fd;
	union {
		CUipcMemHandle ipc;
		CUmemPoolPtrExportData pointer;
	};
};

struct kind {
	const char *name;
	CUresult (*take)(size_t bytes, struct taken *ret_taken);
	CUresult (*give)(const struct taken *taken);
	CUresult (*export)(const struct taken *taken, struct message *ret_message);
	CUresult (*import)(const struct message *message, struct taken *ret_taken);
	CUresult (*close)(const struct taken *taken);
};

static struct taken blocks[BLOCKS_MAX];
static struct message messages[BLOCKS_MAX];

static void say(const char *who, const char *when, size_t count, CUresult cr)
{
	printf("{\"who\": \"%s\", \"when\": \"%s\", \"count\": %zu, \"result\": %d, \"charged\": %llu, "
	       "\"physical\": %llu}\n",
	       who, when, count, (int)cr, (unsigned long long)charged_bytes(),
	       (unsigned long long)physical_bytes());
	fflush(stdout);
}

/* --- IPC handles --- */

static CUresult take_plain(size_t bytes, struct taken *taken)
{
	return cuMemAlloc_v2((CUdeviceptr *)&taken->address, bytes);
}

static CUresult give_plain(const struct taken *taken)
{
	return cuMemFree_v2(taken->address);
}

static CUresult export_ipc(const struct taken *taken, struct message *message)
{
	return cuIpcGetMemHandle(&message->ipc, taken->address);
}

static CUresult import_ipc(const struct message *message, struct taken *taken)
{
	return cuIpcOpenMemHandle_v2((CUdeviceptr *)&taken->address, message->ipc, 1);
}

static CUresult close_ipc(const struct taken *taken)
{
	return cuIpcCloseMemHandle(taken->address);
}

/* --- shareable handles --- */

static CUresult take_handle(size_t bytes, struct taken *taken)
{
	const CUmemAllocationProp props = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	return cuMemCreate((CUmemGenericAllocationHandle *)&taken->handle, bytes, &props, 0);
}

static CUresult give_handle(const struct taken *taken)
{
	return cuMemRelease(taken->handle);
}

static CUresult export_handle(const struct taken *taken, struct message *message)
{
	return cuMemExportToShareableHandle(&message->fd, taken->handle,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult import_handle(const struct message *message, struct taken *taken)
{
	CUresult cr = cuMemImportFromShareableHandle((CUmemGenericAllocationHandle *)&taken->handle,
						     (void *)(uintptr_t)message->fd,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (cr == CUDA_SUCCESS)
		cr = cuMemAddressReserve((CUdeviceptr *)&taken->address, message->bytes, 0, 0, 0);
	return cr == CUDA_SUCCESS ? cuMemMap(taken->address, message->bytes, 0, taken->handle, 0) : cr;
}

static CUresult close_handle(const struct taken *taken)
{
	CUresult cr = cuMemUnmap(taken->address, taken->bytes);
	if (cr == CUDA_SUCCESS)
		cr = cuMemAddressFree(taken->address, taken->bytes);
	return cr == CUDA_SUCCESS ? cuMemRelease(taken->handle) : cr;
}

/* --- blocks of a pool; the importer's is the same pool --- */

static CUmemoryPool pool;

static CUresult take_pooled(size_t bytes, struct taken *taken)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	};
	if (!pool && cuMemPoolCreate(&pool, &props) != CUDA_SUCCESS)
		return CUDA_ERROR_UNKNOWN;
	return cuMemAllocFromPoolAsync((CUdeviceptr *)&taken->address, bytes, pool, NULL);
}

static CUresult free_pooled(const struct taken *taken)
{
	return cuMemFreeAsync(taken->address, NULL);
}

static CUresult export_pooled(const struct taken *taken, struct message *message)
{
	static int fd = -1;
	CUresult cr = CUDA_SUCCESS;
	if (fd < 0)
		cr = cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	message->fd = fd;
	return cr == CUDA_SUCCESS ? cuMemPoolExportPointer(&message->pointer, taken->address) : cr;
}

static CUresult import_pooled(const struct message *message, struct taken *taken)
{
	CUmemPoolPtrExportData pointer = message->pointer;
	CUresult cr = CUDA_SUCCESS;
	if (!pool)
		cr = cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)message->fd,
							CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	return cr == CUDA_SUCCESS ?
		       cuMemPoolImportPointer((CUdeviceptr *)&taken->address, pool, &pointer) :
		       cr;
}

static const struct kind kinds[] = {
	{"ipc", take_plain, give_plain, export_ipc, import_ipc, close_ipc},
	{"handle", take_handle, give_handle, export_handle, import_handle, close_handle},
	{"pool", take_pooled, free_pooled, export_pooled, import_pooled, free_pooled},
};

static const struct kind *kind_named(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	exit(2);
}

/* Until one fails: how many. */
static size_t each(CUresult (*call)(const struct taken *), size_t count, CUresult *ret_last)
{
	size_t done = 0;
	*ret_last = CUDA_SUCCESS;
	while (done < count && *ret_last == CUDA_SUCCESS)
		if ((*ret_last = call(&blocks[done])) == CUDA_SUCCESS)
			done++;
	return done;
}

static int be_importer(const struct kind *kind, int line, size_t count)
{
	CUresult cr = CUDA_SUCCESS;
	struct taken more = {0};
	size_t done = 0;
	for (; done < count && cr == CUDA_SUCCESS; done += cr == CUDA_SUCCESS) {
		if (recv(line, &messages[done], sizeof *messages, MSG_WAITALL) != (ssize_t)sizeof *messages)
			return 2;
		blocks[done] = (struct taken){.bytes = messages[done].bytes};
		cr = kind->import(&messages[done], &blocks[done]);
	}
	say("importer", "imported", done, cr);
	send(line, "", 1, 0);
	char word;
	if (recv(line, &word, 1, 0) != 1)
		return 2;
	cr = take_plain(messages[0].bytes, &more);
	say("importer", "took one more", done, cr);
	if (cr == CUDA_SUCCESS)
		give_plain(&more);
	done -= each(kind->close, done, &cr);
	cuCtxSynchronize();
	say("importer", "closed", done, cr);
	return 0;
}

/* In the container with these directories (NULL: in ours). */
static pid_t start_importer(const char *kind, char **directories, int line, size_t count)
{
	const char *program = "/proc/self/exe";
	char line_text[16], count_text[24];
	snprintf(line_text, sizeof line_text, "%d", line);
	snprintf(count_text, sizeof count_text, "%zu", count);
	pid_t child = fork();
	if (child == 0) {
		if (directories) {
			setenv("HAMID_TEST_LIMITS_DIR", directories[0], 1);
			setenv("HAMID_TEST_USAGE_DIR", directories[1], 1);
		}
		execl(program, program, "import", kind, line_text, count_text, (char *)NULL);
		_exit(127);
	}
	return child;
}

static size_t make_all(const struct kind *kind, size_t bytes)
{
	size_t count = 0;
	CUresult cr = CUDA_SUCCESS;
	while (count < BLOCKS_MAX) {
		blocks[count] = (struct taken){.bytes = bytes};
		cr = kind->take(bytes, &blocks[count]);
		if (cr != CUDA_SUCCESS)
			break;
		count++;
	}
	say("maker", "made", count, cr);
	cr = CUDA_SUCCESS;
	for (size_t i = 0; i < count && cr == CUDA_SUCCESS; i++) {
		messages[i] = (struct message){.bytes = bytes, .fd = -1};
		cr = kind->export(&blocks[i], &messages[i]);
		if (messages[i].fd >= 0)
			fcntl(messages[i].fd, F_SETFD, 0);
	}
	say("maker", "exported", count, cr);
	return count;
}

static int be_maker(const struct kind *kind, size_t bytes, char **directories)
{
	int lines[2], status = -1;
	size_t count = make_all(kind, bytes);
	CUresult cr = CUDA_SUCCESS;
	char word;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, lines) < 0)
		return 2;
	pid_t child = start_importer(kind->name, directories, lines[1], count);
	close(lines[1]);
	send(lines[0], messages, count * sizeof *messages, 0);
	if (recv(lines[0], &word, 1, 0) != 1)
		return 2;
	say("maker", "while imported", count, CUDA_SUCCESS);
	send(lines[0], "", 1, 0);
	waitpid(child, &status, 0);
	say("maker", "importer gone", count, (CUresult)status);
	count -= each(kind->give, count, &cr);
	cuCtxSynchronize();
	say("maker", "freed", count, cr);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "import") == 0) {
		route_start();
		return be_importer(kind_named(argv[2]), atoi(argv[3]), strtoul(argv[4], NULL, 10));
	}
	if (argc != 3 && argc != 5)
		return 2;
	route_start();
	return be_maker(kind_named(argv[1]), strtoul(argv[2], NULL, 10) * MIB,
			argc == 5 ? argv + 3 : NULL);
}
