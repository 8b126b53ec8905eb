/* pages_control.c, pages_usage.c, told.c: several processes, one container, one limit. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "children.h"
#include "container.h"
#include "pages.h"
#include "test.h"
#include "told.h"

/* --- the race: the limit fits one block; whoever has it says so where all can see --- */

#define RACERS 4
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 4000
#else
#define ROUNDS 40000
#endif

static int *holders, *grants;

/* Of each racer; the environment may ask for more. */
static long rounds(void)
{
	const char *wanted = getenv("HAMID_TEST_RACE_ROUNDS");
	return wanted ? atol(wanted) : ROUNDS;
}

static int race(void)
{
	uint32_t device;
	const long count = rounds();
	for (long i = 0; i < count; i++) {
		if (test_reserve(TEST_UUID, 60 * MIB, 100 * MIB, &device) < 0)
			continue;
		__atomic_add_fetch(grants, 1, __ATOMIC_SEQ_CST);
		if (__atomic_add_fetch(holders, 1, __ATOMIC_SEQ_CST) != 1)
			return 1;
		if (i % 4 == 0)
			sched_yield(); /* while it is held: let another try */
		__atomic_sub_fetch(holders, 1, __ATOMIC_SEQ_CST);
		pages_release(device, 60 * MIB);
	}
	return 0;
}

static void check_race(void)
{
	pid_t racers[RACERS];
	holders = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	grants = holders + 1;
	for (int i = 0; i < RACERS; i++) {
		racers[i] = fork();
		if (racers[i] == 0)
			_exit(race());
	}
	for (int i = 0; i < RACERS; i++) {
		int status = 0;
		waitpid(racers[i], &status, 0);
		EXPECT_EQUAL(status, 0);
	}
	EXPECT(*grants > 0);
	munmap(holders, 4096);
}

static void *take_and_give(void *argument)
{
	uint32_t device;
	for (int i = 0; i < 2000; i++)
		if (test_reserve(TEST_UUID, 10 * MIB, 30 * MIB, &device) == 0)
			pages_release(device, 10 * MIB);
	return argument;
}

static void check_threads(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, take_and_give, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void overwrite_usage(off_t at, const void *bytes, size_t length)
{
	int fd = open(pages_usage_path(), O_WRONLY);
	EXPECT_EQUAL(pwrite(fd, bytes, length, at), (long long)length);
	close(fd);
}

static int is_refused(void)
{
	uint32_t device;
	return test_reserve(TEST_UUID, MIB, 100 * MIB, &device) == -EPERM ? 0 : 1;
}

/* Before this process joins, so that each child meets the file as it is. */
static void check_bad_usage_pages(void)
{
	CHECK("a usage page of another version is refused")
	{
		const uint32_t version = HAMID_USAGE_VERSION + 1;
		EXPECT_EQUAL(in_child(take_60), 0);
		overwrite_usage(offsetof(struct hamid_usage, abi_version), &version, sizeof version);
		EXPECT_EQUAL(in_child(is_refused), 0);
		unlink(pages_usage_path());
	}

	CHECK("a usage page with other sizes, or with a feature that is not known, is refused")
	{
		static const struct {
			size_t at, length;
		} fields[] = {
#define FIELD(name) {offsetof(struct hamid_usage, name), sizeof((struct hamid_usage *)0)->name}
			FIELD(size_bytes), FIELD(header_bytes), FIELD(slot_bytes), FIELD(slot_count),
			FIELD(device_capacity), FIELD(feature_bits),
#undef FIELD
		};
		static const uint8_t other[sizeof(uint64_t)] = {0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};
		for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
			EXPECT_EQUAL(in_child(take_60), 0);
			overwrite_usage((off_t)fields[i].at, other, fields[i].length);
			EXPECT_EQUAL(in_child(is_refused), 0);
			unlink(pages_usage_path());
		}
	}

	CHECK("a usage page of an earlier version that nobody is in any more is made anew")
	{
		const uint32_t version = 2;
		struct stat made;
		EXPECT_EQUAL(in_child(take_60), 0);
		overwrite_usage(offsetof(struct hamid_usage, abi_version), &version, sizeof version);
		EXPECT_EQUAL(truncate(pages_usage_path(), (off_t)HAMID_USAGE_BYTES - 4096), 0);
		EXPECT_EQUAL(in_child(take_60), 0);
		EXPECT(stat(pages_usage_path(), &made) == 0 && made.st_size == (off_t)HAMID_USAGE_BYTES);
		unlink(pages_usage_path());
	}

	CHECK("a usage page of an earlier version that somebody is in is refused")
	{
		const uint32_t version = 2;
		const struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = HAMID_LOCK_SLOT(7), .l_len = 1};
		EXPECT_EQUAL(in_child(take_60), 0);
		overwrite_usage(offsetof(struct hamid_usage, abi_version), &version, sizeof version);
		const int fd = open(pages_usage_path(), O_RDWR);
		EXPECT_EQUAL(fcntl(fd, F_OFD_SETLK, &lock), 0);
		EXPECT_EQUAL(in_child(is_refused), 0);
		close(fd);
		unlink(pages_usage_path());
	}

	CHECK("a usage page of the wrong size is refused")
	{
		EXPECT_EQUAL(in_child(take_60), 0);
		EXPECT_EQUAL(truncate(pages_usage_path(), 4096), 0);
		EXPECT_EQUAL(in_child(is_refused), 0);
		unlink(pages_usage_path());
	}

	CHECK("a link in the place of the usage page is refused")
	{
		EXPECT_EQUAL(symlink("/dev/null", pages_usage_path()), 0);
		EXPECT_EQUAL(in_child(is_refused), 0);
		unlink(pages_usage_path());
	}

	CHECK("an empty usage file is filled in, whatever the umask")
	{
		struct stat made;
		umask(077);
		EXPECT_EQUAL(in_child(take_60), 0);
		umask(022);
		EXPECT_EQUAL(stat(pages_usage_path(), &made), 0);
		EXPECT_EQUAL(made.st_mode & 0777, 0666);
		unlink(pages_usage_path());
		close(open(pages_usage_path(), O_CREAT | O_WRONLY, 0666));
		EXPECT_EQUAL(in_child(take_60), 0);
		unlink(pages_usage_path());
	}
}

static void check_control(void)
{
	struct device_limit limit;

	CHECK("a change of the control page is seen by the next call")
	{
		test_set_limit(100 * MIB);
		EXPECT_EQUAL(pages_limit(TEST_UUID, &limit), 0);
		EXPECT_EQUAL(limit.memory_limit_bytes, 100 * MIB);
		test_set_limit(50 * MIB);
		EXPECT_EQUAL(pages_limit(TEST_UUID, &limit), 0);
		EXPECT_EQUAL(limit.memory_limit_bytes, 50 * MIB);
	}

	CHECK("a device that is not named has limit 0")
	{
		EXPECT_EQUAL(pages_limit("GPU-unnamed", &limit), 0);
		EXPECT_EQUAL(limit.memory_limit_bytes, 0);
	}

	CHECK("a damaged page is not followed, and a good one again is")
	{
		test_write_control("nonsense", 8);
		EXPECT_EQUAL(pages_limit(TEST_UUID, &limit), -EPERM);
		EXPECT_EQUAL(pages_limit(TEST_UUID, &limit), -EPERM);
		test_set_limit(100 * MIB);
		EXPECT_EQUAL(pages_limit(TEST_UUID, &limit), 0);
	}

	CHECK("a missing page in a container of ours is not followed either")
	{
		char path[512];
		snprintf(path, sizeof path, "%s/%s", test_dir, HAMID_CONTROL_FILE);
		unlink(path);
		EXPECT_EQUAL(pages_limit(TEST_UUID, &limit), -EPERM);
		test_set_limit(100 * MIB);
		EXPECT_EQUAL(pages_limit(TEST_UUID, &limit), 0);
	}
}

static void check_books(void)
{
	uint32_t device;

	CHECK("the limit is exact")
	{
		EXPECT_EQUAL(test_reserve(TEST_UUID, 100 * MIB + 1, 100 * MIB, &device), -ENOMEM);
		EXPECT_EQUAL(test_reserve(TEST_UUID, 100 * MIB, 100 * MIB, &device), 0);
		EXPECT_EQUAL(test_reserve(TEST_UUID, 1, 100 * MIB, &device), -ENOMEM);
		EXPECT_EQUAL(used_bytes(), 100 * MIB);
		pages_release(device, 100 * MIB);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("sizes near the end of the numbers do not wrap")
	{
		EXPECT_EQUAL(test_reserve(TEST_UUID, MIB, 100 * MIB, &device), 0);
		EXPECT_EQUAL(test_reserve(TEST_UUID, UINT64_MAX, 100 * MIB, &device), -ENOMEM);
		EXPECT_EQUAL(test_reserve(TEST_UUID, UINT64_MAX - MIB + 1, 100 * MIB, &device), -ENOMEM);
		pages_release(device, 2 * MIB);
		EXPECT_EQUAL(used_bytes(), 0);
	}

	CHECK("a child of a process that holds memory counts beside it")
	{
		EXPECT_EQUAL(test_reserve(TEST_UUID, 60 * MIB, 100 * MIB, &device), 0);
		EXPECT_EQUAL(in_child(take_60), ENOMEM);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		pages_release(device, 60 * MIB);
		EXPECT_EQUAL(in_child(take_60), 0);
	}

	CHECK("devices are counted apart")
	{
		uint32_t other;
		EXPECT_EQUAL(test_reserve(TEST_UUID, 60 * MIB, 100 * MIB, &device), 0);
		EXPECT_EQUAL(test_reserve(TEST_UUID_2, 60 * MIB, 100 * MIB, &other), 0);
		EXPECT(device != other);
		pages_release(other, 60 * MIB);
		EXPECT_EQUAL(used_bytes(), 60 * MIB);
		pages_release(device, 60 * MIB);
	}
}

static void check_told(void)
{
	struct told told = {0};
	uint32_t device;

	CHECK("the figures told are the slice's, within what physically is")
	{
		test_set_limit(100 * MIB);
		EXPECT_EQUAL(test_reserve(TEST_UUID, 30 * MIB, 100 * MIB, &device), 0);
		EXPECT_EQUAL(told_of(TEST_UUID, 1000 * MIB, 900 * MIB, &told), 0);
		EXPECT_EQUAL(told.total_bytes, 100 * MIB);
		EXPECT_EQUAL(told.used_bytes, 30 * MIB);
		EXPECT_EQUAL(told.free_bytes, 70 * MIB);
		EXPECT_EQUAL(told_of(TEST_UUID, 1000 * MIB, 20 * MIB, &told), 0);
		EXPECT_EQUAL(told.free_bytes, 20 * MIB);
		EXPECT_EQUAL(told_of(TEST_UUID, 80 * MIB, 50 * MIB, &told), 0);
		EXPECT_EQUAL(told.total_bytes, 80 * MIB);
	}

	CHECK("a limit lowered below what is held leaves nothing free, and no underflow")
	{
		test_set_limit(10 * MIB);
		EXPECT_EQUAL(told_of(TEST_UUID, 1000 * MIB, 900 * MIB, &told), 0);
		EXPECT_EQUAL(told.total_bytes, 10 * MIB);
		EXPECT_EQUAL(told.used_bytes, 10 * MIB);
		EXPECT_EQUAL(told.free_bytes, 0);
		pages_release(device, 30 * MIB);
	}

	CHECK("without a limit the driver's figures stand")
	{
		EXPECT_EQUAL(told_of(TEST_UUID_2, 1000 * MIB, 900 * MIB, &told), -ENOENT);
	}
}

int main(void)
{
	test_make_container();
	check_control();
	check_bad_usage_pages();
	check_books();
	CHECK("threads of one process share one slot")
	{
		check_threads();
		EXPECT_EQUAL(used_bytes(), 0);
	}
	CHECK("of processes that race for the last room never two win")
	{
		check_race();
		EXPECT_EQUAL(used_bytes(), 0);
	}
	check_told();
	test_remove_container();
	return test_report();
}
