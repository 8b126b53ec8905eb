/*
 * Memory of one process that another uses, too.
 *
 *   share KIND UNIT_MIB GOES OPENINGS [LIMITS_DIR USAGE_DIR]
 *
 * The maker takes until it is refused, exports all of it, and runs itself once more as the importer: in its own container, or
 * in the one with these directories. It imports each OPENINGS times. GOES: the maker goes last; or once all is imported
 * it frees, ends, or dies (is killed). Each says at moments of note, by a JSON line, how many blocks it has, its last
 * call's result, what it is charged and was given by the simulated driver, and what the container holds, as it is told.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "route.h"

#define BLOCKS_MAX 512
#define OPENINGS_MAX 2
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

static struct taken blocks[OPENINGS_MAX * BLOCKS_MAX];
static struct message messages[BLOCKS_MAX];

static void say(const char *who, const char *when, size_t count, CUresult cr)
{
	size_t free_bytes = 0, total_bytes = 0;
	cuMemGetInfo_v2(&free_bytes, &total_bytes);
	printf("{\"who\": \"%s\", \"when\": \"%s\", \"count\": %zu, \"result\": %d, \"charged\": %llu, "
	       "\"physical\": %llu, \"told\": %zu}\n",
	       who, when, count, (int)cr, (unsigned long long)charged_bytes(),
	       (unsigned long long)physical_bytes(), total_bytes - free_bytes);
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
	if (cr != CUDA_SUCCESS)
		return cr;
	cr = cuMemMap(taken->address, message->bytes, 0, taken->handle, 0);
	if (cr != CUDA_SUCCESS)
		cuMemRelease(taken->handle);
	return cr;
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
static size_t each(CUresult (*call)(const struct taken *), const struct taken *from, size_t count, CUresult *ret_last)
{
	size_t done = 0;
	*ret_last = CUDA_SUCCESS;
	while (done < count && *ret_last == CUDA_SUCCESS)
		if ((*ret_last = call(&from[done])) == CUDA_SUCCESS)
			done++;
	return done;
}

static void try_one_more(const char *when, size_t count, size_t bytes)
{
	struct taken more = {.bytes = bytes};
	CUresult cr = take_plain(bytes, &more);
	say("importer", when, count, cr);
	if (cr == CUDA_SUCCESS)
		give_plain(&more);
}

/* All of them, as often as was asked for; how many went well in a row. */
static size_t import_all(const struct kind *kind, size_t count, int openings, CUresult *ret_last)
{
	size_t done = 0;
	*ret_last = CUDA_SUCCESS;
	for (int i = 0; i < openings; i++)
		for (size_t j = 0; j < count && *ret_last == CUDA_SUCCESS; j++) {
			blocks[done] = (struct taken){.bytes = messages[j].bytes};
			*ret_last = kind->import(&messages[j], &blocks[done]);
			done += *ret_last == CUDA_SUCCESS;
		}
	return done;
}

/* The maker says so, or is gone. */
static void wait_for_maker(int line, int maker)
{
	char word;
	struct pollfd gone = {.fd = maker, .events = POLLIN};
	if (recv(line, &word, 1, 0) != 1)
		poll(&gone, 1, -1);
}

static int be_importer(const struct kind *kind, int line, size_t count, int openings)
{
	CUresult cr;
	const int maker = (int)syscall(SYS_pidfd_open, getppid(), 0);
	if (maker < 0 || recv(line, messages, count * sizeof *messages, MSG_WAITALL) !=
				 (ssize_t)(count * sizeof *messages))
		return 2;
	size_t done = import_all(kind, count, openings, &cr);
	say("importer", "imported", done, cr);
	send(line, "", 1, 0);
	wait_for_maker(line, maker);
	try_one_more("took one more", done, messages[0].bytes);
	for (size_t left = done; left > count; left = done) {
		done -= each(kind->close, &blocks[left - count], count, &cr);
		try_one_more("closed once", done, messages[0].bytes);
	}
	done -= each(kind->close, blocks, done, &cr);
	cuCtxSynchronize();
	say("importer", "closed", done, cr);
	return 0;
}

/* In the container with these directories (NULL: in ours). */
static pid_t start_importer(const char *kind, const char *openings, char **directories, int line, size_t count)
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
		execl(program, program, "import", kind, line_text, count_text, openings, (char *)NULL);
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

static size_t free_all(const struct kind *kind, size_t count)
{
	CUresult cr;
	count -= each(kind->give, blocks, count, &cr);
	cuCtxSynchronize();
	say("maker", "freed", count, cr);
	return count;
}

static int be_maker(const struct kind *kind, size_t bytes, const char *goes, const char *openings, char **directories)
{
	int lines[2], status = -1;
	size_t count = make_all(kind, bytes);
	char word;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, lines) < 0)
		return 2;
	fcntl(lines[0], F_SETFD, FD_CLOEXEC); /* or the importer would not see that we end */
	pid_t child = start_importer(kind->name, openings, directories, lines[1], count);
	close(lines[1]);
	send(lines[0], messages, count * sizeof *messages, 0);
	if (recv(lines[0], &word, 1, 0) != 1)
		return 2;
	say("maker", "while imported", count, CUDA_SUCCESS);
	if (strcmp(goes, "ends") == 0)
		return 0;
	if (strcmp(goes, "dies") == 0)
		raise(SIGKILL);
	if (strcmp(goes, "frees") == 0)
		count = free_all(kind, count);
	send(lines[0], "", 1, 0);
	waitpid(child, &status, 0);
	say("maker", "importer gone", count, (CUresult)status);
	if (count)
		free_all(kind, count);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "import") == 0) {
		route_start();
		return be_importer(kind_named(argv[2]), atoi(argv[3]), strtoul(argv[4], NULL, 10), atoi(argv[5]));
	}
	if (argc != 5 && argc != 7)
		return 2;
	route_start();
	return be_maker(kind_named(argv[1]), strtoul(argv[2], NULL, 10) * MIB, argv[3], argv[4],
			argc == 7 ? argv + 5 : NULL);
}
