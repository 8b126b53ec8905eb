/* enforced.c: what else holds a process to its share. */
#include "enforced.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct enforced_facts card(void)
{
	return (struct enforced_facts){
		.device_name = "GPU-11111111-2222-3333-4444-555555555555",
		.percent = 30,
		.flags = HAMID_FLAG_TRUST_MPS,
		.has_mps_pipe = true,
		.is_mps_outside = true,
	};
}

static uint32_t with_threads(const char *mps_percent)
{
	struct enforced_facts facts = card();
	facts.mps_percent = mps_percent;
	return enforced_of(&facts);
}

static uint32_t with_dmem(const char *dmem_max)
{
	struct enforced_facts facts = card();
	facts.dmem_max = dmem_max;
	return enforced_of(&facts);
}

static void check_mps(void)
{
	CHECK("threads of MPS within the share are enough")
	{
		EXPECT_EQUAL(with_threads("30"), HAMID_ENFORCED_MPS);
		EXPECT_EQUAL(with_threads("12.5"), HAMID_ENFORCED_MPS);
	}

	CHECK("threads of MPS beyond the share, or none, are not")
	{
		EXPECT_EQUAL(with_threads("31"), 0);
		EXPECT_EQUAL(with_threads("0"), 0);
		EXPECT_EQUAL(with_threads(""), 0);
		EXPECT_EQUAL(with_threads("10x"), 0);
		EXPECT_EQUAL(with_threads("-5"), 0);
		EXPECT_EQUAL(with_threads("nan"), 0);
		EXPECT_EQUAL(with_threads(NULL), 0);
	}

	CHECK("what the environment says of MPS is no authority where the host does not run it")
	{
		struct enforced_facts facts = card();
		facts.mps_percent = "10";
		facts.flags = 0;
		EXPECT_EQUAL(enforced_of(&facts), HAMID_SEEN_MPS);
		EXPECT(!enforced_is_stronger(HAMID_SEEN_MPS));
	}

	CHECK("a socket at which a process of the container listens is no authority")
	{
		struct enforced_facts facts = card();
		facts.mps_percent = "10";
		facts.is_mps_outside = false;
		EXPECT_EQUAL(enforced_of(&facts), HAMID_SEEN_MPS);
	}

	CHECK("MPS without its daemon is none")
	{
		struct enforced_facts facts = card();
		facts.mps_percent = "10";
		facts.has_mps_pipe = false;
		EXPECT_EQUAL(enforced_of(&facts), 0);
	}
}

int main(void)
{
	check_mps();

	CHECK("an instance is a share of its own")
	{
		struct enforced_facts facts = card();
		facts.device_name = "MIG-11111111-2222-3333-4444-555555555555";
		EXPECT_EQUAL(enforced_of(&facts), HAMID_ENFORCED_MIG);
		EXPECT(enforced_is_stronger(HAMID_ENFORCED_MIG));
	}

	CHECK("limits of the kernel are told, and leave the cap")
	{
		EXPECT_EQUAL(with_dmem("drm/0000:03:00.0/vram0 1073741824\n"), HAMID_ENFORCED_DMEM);
		EXPECT_EQUAL(with_dmem("a/vram0 max\nb/vram0 5"), HAMID_ENFORCED_DMEM);
		EXPECT_EQUAL(with_dmem("a/vram0 max\nb/vram0 max\n"), 0);
		EXPECT_EQUAL(with_dmem("\n\nnonsense"), 0);
		EXPECT(!enforced_is_stronger(HAMID_ENFORCED_DMEM));
	}

	CHECK("environment and cgroup are found")
	{
		char dir[] = "/tmp/hamid-enforced-XXXXXX", path[64];
		EXPECT(mkdtemp(dir) != NULL);
		snprintf(path, sizeof path, "%s/control", dir);
		close(open(path, O_CREAT | O_WRONLY, 0600));
		setenv("CUDA_MPS_PIPE_DIRECTORY", dir, 1);
		setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", 1);
		setenv("HAMID_TEST_DMEM_MAX", "/dev/null", 1);
		EXPECT_EQUAL(enforced_here("GPU-1", 30, HAMID_FLAG_TRUST_MPS), HAMID_SEEN_MPS);
		EXPECT_EQUAL(enforced_here("GPU-1", 20, HAMID_FLAG_TRUST_MPS), 0);
		unlink(path);
		rmdir(dir);
	}
	return test_report();
}
