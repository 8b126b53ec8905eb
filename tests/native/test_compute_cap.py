"""The compute cap on the simulated driver: GPU time used, whatever starts the work.

What one process alone shows runs on the virtual clock, and so comes out the same on every machine.
Elsewhere, above the cap nothing is excused. Below, a fifth is enough: a busy machine launches
late, and how close a tenant comes to its share is what `bench-cap` measures.
"""

import contextlib
import json
import socket
import subprocess

import pytest

from hamid.hooks.abi.budgets import USAGE_BUDGET, decode_budget, decode_places
from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from hamid.hooks.abi.usage import USAGE_HEADER_BYTES, Enforced
from tests.native.container import CARD, OTHER_CARD, TIMEOUT_S, Container

pytestmark = pytest.mark.native

OVER_POINTS = 4
LAUNCH_FAILED = 3
NOT_PERMITTED = 800
MS = 1_000_000


def cap(container, percent: int, generation: int = 1, *, trusts_mps: bool = False) -> None:
    cap_each(container, {CARD: percent}, generation, trusts_mps=trusts_mps)


def cap_each(
    container, percents: dict[str, int], generation: int = 1, *, trusts_mps: bool = False
) -> None:
    devices = tuple(
        DeviceLimit(device_uuid=uuid, memory_bytes=None, core_percent=percent)
        for uuid, percent in percents.items()
    )
    limits = ContainerLimits(
        devices=devices, priority=1, generation=generation, trusts_mps=trusts_mps
    )
    container.write_page(encode_control_page(limits))


class Busy:
    """A running `launch`, which begins when told."""

    def __init__(
        self,
        container,
        stack,
        how: str,
        kernel_ns: object,
        milliseconds: int,
        *,
        prefix: tuple[str, ...] = (),
        **env: str,
    ):
        launch = str(container.build / "bin/launch")
        self.process = stack.enter_context(
            subprocess.Popen(
                [*prefix, launch, how, str(kernel_ns), str(milliseconds)],
                env=container.environment({"HAMID_TEST_LOOK_EVERY_MS": "50", **env}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(self.process.kill)
        assert self.process.stdout.readline() == "ready\n"

    def begin(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def told(self) -> dict:
        """What it says at its end."""
        told = json.loads(self.process.stdout.readline())
        assert self.process.wait(TIMEOUT_S) == 0
        return told

    def percent(self) -> float:
        """The share of the device that it got."""
        told = self.told()
        return 100 * told["gpu_ns"] / told["elapsed_ns"]


@pytest.fixture
def busy(container):
    with contextlib.ExitStack() as stack:
        yield lambda *work, **options: Busy(container, stack, *work, **options)


def got(tenant: Busy) -> float:
    tenant.begin()
    return tenant.percent()


def said(container, busy, **env) -> Enforced:
    """What the usage page says of a tenant while it runs, once it says anything."""
    state = container.env["HAMID_SIM_STATE"] + "-said"  # with nobody's virtual time in it
    tenant = busy("sync", MS, 60_000, HAMID_SIM_STATE=state, **env)
    tenant.begin()
    page, enforced = container.usage_dir / USAGE_PAGE_NAME, Enforced.NONE
    while not enforced and tenant.process.poll() is None:
        if page.exists():
            enforced = Enforced(sum(p.enforced for p in container.usage().processes))
    return enforced


def charged_ns(container, uuid: str) -> int:
    """The GPU time that the container was charged."""
    page = (container.usage_dir / USAGE_PAGE_NAME).read_bytes()
    place = decode_places(page[:USAGE_HEADER_BYTES])[uuid]
    use = decode_budget(page[place : place + USAGE_BUDGET.size])
    return use.charged_ns if use else 0


VIRTUAL = {"HAMID_SIM_CLOCK": "virtual"}
POINTS = 1


@pytest.mark.parametrize("kernel_ns", [5000, MS // 10, MS, 10 * MS, 50 * MS])
@pytest.mark.parametrize("percent", [10, 30, 50, 70])
def test_a_tenant_gets_its_share_of_time_and_no_more(container, busy, percent, kernel_ns):
    cap(container, percent)
    used = got(busy("kernel", kernel_ns, 10_000, **VIRTUAL))

    assert percent - POINTS < used < percent + POINTS


@pytest.mark.parametrize("kernel_ns", [5000, MS // 10, MS, 10 * MS])
def test_from_the_first_second_on_each_is_like_the_others(container, busy, kernel_ns):
    cap(container, 30)
    tenant = busy("kernel", kernel_ns, 10_000, **VIRTUAL)
    tenant.begin()
    percents = [gpu_ns / (10 * MS) for gpu_ns in tenant.told()["seconds"]]

    assert len(percents) >= 9
    assert all(27 <= percent <= 33 for percent in percents), percents


@pytest.mark.parametrize("long_ns", [300_000, MS, 20 * MS])
@pytest.mark.parametrize("how", ["kernel", "sync", "streams"])
def test_long_launches_among_many_short_ones_of_the_same_kind_are_charged(
    container, busy, how, long_ns
):
    """Neither by chance nor by a program's intention are only the short ones measured."""
    cap(container, 30)
    tenant = busy(how, f"{long_ns}h", 20_000, **VIRTUAL)
    tenant.begin()
    percents = [gpu_ns / (10 * MS) for gpu_ns in tenant.told()["seconds"]]

    assert max(percents[2:]) < 30 + OVER_POINTS
    assert 30 - POINTS < sum(percents[2:]) / len(percents[2:]) < 30 + POINTS


@pytest.mark.parametrize("kernel_ns", [5000, MS // 5, 20 * MS])
@pytest.mark.parametrize(
    "how",
    [
        *("ex", "coop", "sync", "deep", "graph", "streams", "grid", "multi"),
        *("kernel-ptsz", "ex-ptsz", "coop-ptsz", "graph-ptsz"),
    ],
)
def test_every_form_of_launch_is_charged_what_it_takes(container, busy, how, kernel_ns):
    cap(container, 30)

    assert 30 - POINTS < got(busy(how, kernel_ns, 20_000, **VIRTUAL)) < 30 + POINTS


@pytest.mark.parametrize("fill_ns", [5000, 20 * MS])
@pytest.mark.parametrize(
    "how",
    [
        *("fill", "fill-ptsz", "fill-now", "rows", "copy", "copy-now"),
        *("any", "any-ptsz", "any-now", "plane", "plane-now", "unaligned", "cuboid", "cuboid-now"),
        *("arrays", "to-array", "from-array", "batch", "batch-old"),
    ],
)
def test_fills_and_copies_on_the_device_are_charged_what_they_take(container, busy, how, fill_ns):
    cap(container, 30)
    tenant = busy(how, fill_ns, 20_000, HAMID_SIM_FILL_NS=str(fill_ns), **VIRTUAL)

    assert 30 - POINTS < got(tenant) < 30 + POINTS


@pytest.mark.parametrize("how", ["in", "out"])
def test_copies_from_and_to_the_host_are_charged_nothing(container, busy, how):
    cap(container, 10)
    got(busy(how, 20 * MS, 200, HAMID_SIM_FILL_NS=str(20 * MS)))

    assert charged_ns(container, CARD) == 0


@pytest.mark.parametrize("kernel_ns", [MS // 5, 20 * MS])
@pytest.mark.parametrize("caps", [(30, 60), (60, 30), (0, 30), (30, 0)])
def test_a_launch_on_two_devices_waits_for_both_and_is_charged_to_each(
    container, busy, caps, kernel_ns
):
    cap_each(container, dict(zip((CARD, OTHER_CARD), caps, strict=True)))
    tenant = busy("both", kernel_ns, 10_000, **VIRTUAL)
    tenant.begin()
    told = tenant.told()

    assert 30 - POINTS < 100 * told["gpu_ns"] / told["elapsed_ns"] < 30 + POINTS
    for uuid in (uuid for uuid, cap in zip((CARD, OTHER_CARD), caps, strict=True) if cap):
        assert 0.97 < charged_ns(container, uuid) / told["gpu_ns"] < 1.03


@pytest.mark.parametrize("wave_ns", [5000, MS // 10, MS])
def test_one_function_costs_what_each_of_its_grids_takes(container, busy, wave_ns):
    """Launched with three grids in turns, which take up to forty times as long as each other."""
    cap(container, 30)

    used = got(busy("grids", f"{wave_ns}w", 20_000, **VIRTUAL))

    assert 30 - POINTS < used < 30 + POINTS


def test_a_thread_that_launches_once_and_ends_takes_no_more_time_along(container, busy):
    cap(container, 30)

    assert 30 - POINTS < got(busy("threads", 20_000, 4000, **VIRTUAL)) < 30 + POINTS


def test_a_thread_whose_first_launch_had_no_context_is_capped_all_the_same(container, busy):
    cap(container, 10)

    assert 10 - POINTS < got(busy("late", 20 * MS, 10_000, **VIRTUAL)) < 10 + POINTS


@pytest.mark.parametrize("how", ["kernel", "sync"])
def test_on_the_clock_of_the_host_a_cap_holds_as_well(container, busy, how):
    cap(container, 30)

    assert 6 < got(busy(how, MS, 1000)) < 30 + OVER_POINTS


def test_who_is_held_to_a_cap_sleeps_while_it_waits(container, busy):
    cap(container, 10)
    tenant = busy("kernel", 20 * MS, 2000)
    tenant.begin()
    told = tenant.told()

    assert told["elapsed_ns"] >= 2000 * MS
    assert told["cpu_ns"] * 10 < told["elapsed_ns"]


def test_work_that_runs_is_waited_for_until_it_is_known_before_it_is_started_again(container, busy):
    cap(container, 10)
    tenant = busy("graph", 50 * MS, 3000, **VIRTUAL)  # two kernels
    tenant.begin()
    told = tenant.told()

    assert told["seconds"] == [100 * MS] * 3
    assert told["worst_ns"] <= 1100 * MS


def test_work_that_takes_longer_than_it_is_waited_for_is_started_twice_before_it_is_known(
    container, busy
):
    cap(container, 50)
    tenant = busy("graph", 300 * MS, 3000, **VIRTUAL)  # two kernels
    tenant.begin()

    assert sum(tenant.told()["seconds"][:2]) <= 2 * 2 * 301 * MS


@pytest.mark.parametrize("percent", [0, 100])
def test_without_a_cap_nobody_waits(container, busy, percent):
    cap(container, percent)

    assert got(busy("kernel", MS, 500)) > 50


def test_where_no_budget_can_be_kept_nothing_is_launched(container):
    cap(container, 30)
    (container.usage_dir / USAGE_PAGE_NAME).symlink_to("/dev/null")

    done = container.run("launch", "kernel", MS, 100)

    assert done.returncode == LAUNCH_FAILED
    assert f": {NOT_PERMITTED}\n" in done.stderr
    assert "cannot be counted" in done.stderr


@pytest.fixture
def inside():
    """What makes the command behind it one of a pid namespace of its own, as a container's are."""
    unshare = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no namespaces here: unshare is not permitted")
    return unshare


@pytest.fixture
def mps(tmp_path):
    """A socket as the control daemon of MPS has it, at which this process listens; the client's environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.bind(str(tmp_path / "control"))
        control.listen()
        yield {
            "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
        }


def test_where_the_host_runs_mps_its_threads_are_enough(container, busy, mps, inside):
    cap(container, 30, trusts_mps=True)

    assert got(busy("kernel", MS, 2000, prefix=inside, **VIRTUAL, **mps)) > 90
    assert said(container, busy, prefix=inside, **mps) == Enforced.MPS


def test_where_the_container_itself_listens_for_mps_it_is_capped_and_seen(container, busy, mps):
    cap(container, 30, trusts_mps=True)

    assert got(busy("kernel", MS, 2000, **VIRTUAL, **mps)) < 30 + OVER_POINTS
    assert said(container, busy, **mps) == Enforced.MPS_CLAIMED


def test_a_file_where_mps_has_its_socket_is_no_mps(container, busy, mps, inside, tmp_path):
    (tmp_path / "control").unlink()
    (tmp_path / "control").touch()
    cap(container, 30, trusts_mps=True)

    launched = busy("kernel", MS, 2000, prefix=inside, **VIRTUAL, **mps)
    assert got(launched) < 30 + OVER_POINTS


def test_a_container_that_claims_mps_is_capped_and_seen(container, busy, mps, inside):
    cap(container, 30)

    launched = busy("kernel", MS, 2000, prefix=inside, **VIRTUAL, **mps)
    assert got(launched) < 30 + OVER_POINTS
    assert said(container, busy, prefix=inside, **mps) == Enforced.MPS_CLAIMED


def test_on_a_mig_instance_nobody_waits_and_the_usage_page_says_why(container, busy):
    instance = "MIG-99999999-2222-3333-4444-555555555555"
    container.machine.write_text(
        f"uuid={CARD}\nname=NVIDIA A100\nmemory_mib=40960\nmig_capable=1\nmig=1\n"
        f"mig_instance={instance},1g.5gb,4864,7,0\n"
    )
    cap_each(container, {instance: 30})

    assert got(busy("kernel", MS, 2000, **VIRTUAL)) > 90
    assert said(container, busy) == Enforced.MIG


def test_what_the_kernel_limits_is_said_in_the_usage_page(container, busy, tmp_path):
    (tmp_path / "dmem.max").write_text("drm/0000:03:00.0/vram0 1073741824\n")
    cap(container, 30)

    dmem_max = str(tmp_path / "dmem.max")
    assert said(container, busy, HAMID_TEST_DMEM_MAX=dmem_max) == Enforced.DMEM


def test_two_processes_of_a_container_share_one_cap(container, busy):
    cap(container, 40)
    tenants = [busy("kernel", MS, 1500), busy("kernel", MS, 1500)]
    for tenant in tenants:
        tenant.begin()

    assert 8 < sum(tenant.percent() for tenant in tenants) < 40 + OVER_POINTS


def test_two_containers_of_a_saturated_card_get_their_caps_and_no_more(
    container, busy, native_build, tmp_path
):
    directory = tmp_path / "other"
    directory.mkdir()
    with Container(native_build, directory) as other, contextlib.ExitStack() as stack:
        other.env["HAMID_SIM_STATE"] = container.env["HAMID_SIM_STATE"]
        cap(container, 30)
        cap(other, 60)
        tenants = [busy("kernel", MS, 2000), Busy(other, stack, "kernel", MS, 2000)]
        for tenant in tenants:
            tenant.begin()
        first, second = (tenant.percent() for tenant in tenants)

    assert 6 < first < 30 + OVER_POINTS
    assert 12 < second < 60 + OVER_POINTS


def test_a_killed_process_leaves_no_debt_behind(container, busy):
    cap(container, 30)
    killed, survivor = busy("kernel", MS, 60_000), busy("kernel", MS, 1000)
    killed.begin()
    survivor.begin()
    killed.process.kill()

    assert 6 < survivor.percent() < 30 + OVER_POINTS


def test_a_cap_that_is_lifted_is_seen_by_who_runs(container, busy):
    cap(container, 10)
    tenant = busy("kernel", MS, 2000)
    tenant.begin()
    cap(container, 100, generation=2)

    assert tenant.percent() > 20


def test_a_cap_that_comes_is_seen_by_who_runs(container, busy):
    cap(container, 0)
    tenant = busy("sync", MS, 2000)
    tenant.begin()
    cap(container, 10, generation=2)

    assert tenant.percent() < 60
