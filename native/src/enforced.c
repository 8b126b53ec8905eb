#include "enforced.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys.h"

#define MPS_PIPES "/tmp/nvidia-mps" /* where CUDA looks when it is told nothing */
#define DMEM_MAX "/sys/fs/cgroup/dmem.max"
#define MPS_PATIENCE_US 100000 /* for a daemon that is busy */

/* 1 to 100; 0: it is no such number. MPS takes fractions. */
static double percentage(const char *text)
{
	char *end;
	if (!text || *text < '0' || *text > '9')
		return 0;
	const double value = strtod(text, &end);
	return *end == 0 && value > 0 && value <= 100 ? value : 0;
}

/* "<region> <bytes>" or "<region> max", a line each. */
static bool has_limit(const char *dmem_max)
{
	for (const char *line = dmem_max; line && *line;) {
		const size_t length = strcspn(line, "\n");
		const char *space = memchr(line, ' ', length);
		if (space && space[1] >= '0' && space[1] <= '9')
			return true;
		line += length + (line[length] == '\n');
	}
	return false;
}

uint32_t enforced_of(const struct enforced_facts *facts)
{
	uint32_t enforced = 0;
	const double threads = facts->has_mps_pipe ? percentage(facts->mps_percent) : 0;
	if (strncmp(facts->device_name, "MIG-", 4) == 0)
		enforced |= HAMID_ENFORCED_MIG;
	if (threads > 0 && (!facts->percent || threads <= facts->percent))
		enforced |= facts->flags & HAMID_FLAG_TRUST_MPS && facts->is_mps_outside ? HAMID_ENFORCED_MPS :
											 HAMID_SEEN_MPS;
	if (has_limit(facts->dmem_max))
		enforced |= HAMID_ENFORCED_DMEM;
	return enforced;
}

/* --- of this process --- */

static struct {
	char mps_percent[16];
	struct sockaddr_un mps_control;
	bool has_mps_pipe, is_mps_outside;
	char dmem_max[1024];
} here;

static const char *dmem_path(void)
{
#ifdef HAMID_TEST_PATHS
	const char *path = getenv("HAMID_TEST_DMEM_MAX");
	if (path)
		return path;
#endif
	return DMEM_MAX;
}

/* Processes of other pid namespaces, but for those made by this one, have no pid here. */
static bool is_outside(int fd)
{
	struct ucred listener;
	socklen_t length = sizeof listener;
	const struct timeval patience = {.tv_usec = MPS_PATIENCE_US};
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	return connect(fd, (const struct sockaddr *)&here.mps_control, sizeof here.mps_control) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &length) == 0 && listener.pid == 0;
}

/* Ask who listens, and say nothing: the daemon takes that for a client that gave up. */
static void look_for_mps(void)
{
	static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM};
	for (size_t i = 0; i < sizeof types / sizeof *types && !here.is_mps_outside; i++) {
		const int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return;
		here.is_mps_outside = is_outside(fd);
		close(fd);
	}
}

static void look(void)
{
	struct sockaddr_un *control = &here.mps_control;
	struct stat found;
	const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
	snprintf(here.mps_percent, sizeof here.mps_percent, "%s", percent ? percent : "");
	control->sun_family = AF_UNIX;
	const int length = snprintf(control->sun_path, sizeof control->sun_path, "%s/control",
				    pipes && *pipes ? pipes : MPS_PIPES);
	here.has_mps_pipe = length < (int)sizeof control->sun_path &&
			    sys_stat(control->sun_path, &found) == 0;
	const int fd = open(dmem_path(), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	const ssize_t bytes = read(fd, here.dmem_max, sizeof here.dmem_max - 1);
	here.dmem_max[bytes > 0 ? bytes : 0] = 0;
	close(fd);
}

uint32_t enforced_here(const char *device_name, uint32_t percent, uint32_t flags)
{
	static pthread_once_t looked = PTHREAD_ONCE_INIT, looked_for_mps = PTHREAD_ONCE_INIT;
	const int saved_errno = errno;
	pthread_once(&looked, look);
	if (flags & HAMID_FLAG_TRUST_MPS && here.has_mps_pipe && percentage(here.mps_percent) > 0)
		pthread_once(&looked_for_mps, look_for_mps);
	errno = saved_errno;
	const struct enforced_facts facts = {
		.device_name = device_name,
		.percent = percent,
		.flags = flags,
		.mps_percent = here.mps_percent,
		.has_mps_pipe = here.has_mps_pipe,
		.is_mps_outside = here.is_mps_outside,
		.dmem_max = here.dmem_max,
	};
	return enforced_of(&facts);
}
