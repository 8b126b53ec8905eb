"""Lending and priorities, library and lender together, on one clock that no host's speed moves (`lockstep`)."""

import pytest

from hamid.hooks.abi.contract import LIVE_STALE_NS
from hamid.hooks.abi.pages import CoreMode
from tests.native.lockstep import LOOK_NS, MS, SLOT_MS, limit, lockstep

pytestmark = pytest.mark.native

POINTS = 2
KERNELS_NS = [MS // 10, MS, 5 * MS]
SETTLED_NS = 5000 * MS
"""What passed before it was known that another is there may be in the costs of kernels: until NVML's figures tell."""
QUEUED_NS = 20 * MS
"""What may be on its way when a rate falls."""


def taken_back_ns(kernel_ns: int) -> int:
    """One look, what is queued, and the slots that these begin and end in."""
    return LOOK_NS + QUEUED_NS + 4 * kernel_ns + 2 * SLOT_MS * MS


def high_and_low(node):
    """Two containers without a core limit that share by priority."""
    high, low = node.container("high"), node.container("low")
    limit(high, 0, CoreMode.PRIORITY, priority=0)
    limit(low, 0, CoreMode.PRIORITY, priority=1)
    return high, low


def near(percent: float) -> object:
    return pytest.approx(percent, abs=POINTS)


@pytest.mark.parametrize("kernel_ns", KERNELS_NS)
async def test_a_lower_priority_keeps_its_floor_and_has_all_when_the_higher_one_is_idle(
    native_build, kernel_ns
):
    async with lockstep(native_build) as node:
        high, low = high_and_low(node)
        under = await node.begin(low, 11_000, kernel_ns)
        await node.run(1000 * MS)
        over = await node.begin(high, 8000, kernel_ns)
        await node.end()

    begun_ns, ended_ns = over.begun_ns, over.begun_ns + 8000 * MS
    assert under.between(begun_ns - 500 * MS, begun_ns) > 98
    assert under.between(begun_ns + SETTLED_NS, ended_ns) == near(5)
    assert over.between(begun_ns + SETTLED_NS, ended_ns) == near(95)
    assert under.between(ended_ns + 500 * MS, ended_ns + 1500 * MS) > 98


@pytest.mark.parametrize("kernel_ns", KERNELS_NS)
async def test_who_may_be_stopped_gets_nothing_while_the_higher_is_busy_and_goes_on_then(
    native_build, kernel_ns
):
    async with lockstep(native_build, floor_percent=0) as node:
        high, low = high_and_low(node)
        under = await node.begin(low, 6000, kernel_ns)
        await node.run(1000 * MS)
        over = await node.begin(high, 3000, kernel_ns)
        await node.end()

    begun_ns, ended_ns = over.begun_ns, over.begun_ns + 3000 * MS
    assert under.between(begun_ns + taken_back_ns(kernel_ns), ended_ns) == 0
    assert over.between(begun_ns + taken_back_ns(kernel_ns), ended_ns - 2 * SLOT_MS * MS) > 99
    assert under.between(ended_ns + 200 * MS, ended_ns + 1200 * MS) > 98


@pytest.mark.parametrize("window_ms", [167, 1000])
@pytest.mark.parametrize("kernel_ns", KERNELS_NS)
async def test_what_an_owner_leaves_idle_is_lent_and_taken_back_at_the_next_look(
    native_build, kernel_ns, window_ms
):
    """However late NVML's figures are."""
    async with lockstep(native_build, HAMID_SIM_WINDOW_MS=str(window_ms)) as node:
        lent, owner = node.container("lent"), node.container("owner")
        limit(lent, 30, CoreMode.LEND)
        limit(owner, 70, CoreMode.LEND)
        borrower = await node.begin(lent, 11_000, kernel_ns)
        await node.run(1000 * MS)
        back = await node.begin(owner, 8000, kernel_ns)
        await node.end()

    begun_ns, ended_ns = back.begun_ns, back.begun_ns + 8000 * MS
    assert borrower.between(begun_ns - 500 * MS, begun_ns) > 98
    back_ns = begun_ns + taken_back_ns(kernel_ns)
    assert back.between(back_ns, back_ns + 200 * MS) > 70 - 3 * POINTS
    assert back.between(begun_ns + SETTLED_NS, ended_ns) == near(70)
    assert borrower.between(begun_ns + SETTLED_NS, ended_ns) == near(30)
    assert borrower.between(ended_ns + 200 * MS, ended_ns + 1200 * MS) > 98


async def test_what_was_promised_to_nobody_goes_by_weight(native_build):
    async with lockstep(native_build) as node:
        tenants = []
        for weight in (1, 3):
            one = node.container(str(weight))
            limit(one, 20, CoreMode.LEND, weight=weight)
            tenants.append(await node.begin(one, 6000))
        await node.end()

    light, heavy = (one.between(one.begun_ns + 2000 * MS, 6900 * MS) for one in tenants)
    assert light == near(35)
    assert heavy == near(65)


async def test_while_the_lender_is_late_what_was_decided_stands_and_the_owner_has_half(
    native_build,
):
    """By its own rate the owner is let through at once; what is lent to another is taken back at the next look."""
    late_ns = LIVE_STALE_NS - 4 * LOOK_NS
    async with lockstep(native_build) as node:
        lent, owner = node.container("lent"), node.container("owner")
        limit(lent, 30, CoreMode.LEND)
        limit(owner, 70, CoreMode.LEND)
        borrower = await node.begin(lent, 6000)
        await node.run(1000 * MS)
        back = await node.begin(owner, 4000)
        await node.run(late_ns, late_ns=late_ns)
        looked_ns = node.now_ns
        await node.end()

    begun_ns = back.begun_ns
    assert back.between(begun_ns + 100 * MS, looked_ns - SLOT_MS * MS) == near(50)
    assert borrower.between(begun_ns + 100 * MS, looked_ns - SLOT_MS * MS) == near(50)
    back_ns = looked_ns + taken_back_ns(MS)
    assert back.between(back_ns, back_ns + 200 * MS) > 70 - 3 * POINTS


async def test_while_the_lender_is_late_a_lower_priority_has_no_more_than_its_floor(native_build):
    late_ns = LIVE_STALE_NS - 4 * LOOK_NS
    async with lockstep(native_build) as node:
        high, low = high_and_low(node)
        under, over = await node.begin(low, 6000), await node.begin(high, 6000)
        await node.run(2000 * MS)
        from_ns = node.now_ns
        await node.run(late_ns, late_ns=late_ns)
        await node.end()

    assert under.between(from_ns, from_ns + late_ns) == near(5)
    assert over.between(from_ns, from_ns + late_ns) == near(95)


async def test_when_the_lender_is_gone_each_is_held_to_its_core_limit(native_build):
    gone_ns = LIVE_STALE_NS + 2000 * MS
    async with lockstep(native_build) as node:
        lent, owner = node.container("lent"), node.container("owner")
        limit(lent, 30, CoreMode.LEND)
        limit(owner, 70, CoreMode.LEND)
        borrower = await node.begin(lent, 6000)
        await node.run(1000 * MS)
        from_ns = node.now_ns
        await node.run(gone_ns, late_ns=gone_ns)
        await node.end()

    assert borrower.between(from_ns, from_ns + LIVE_STALE_NS - LOOK_NS) > 98
    assert borrower.between(from_ns + LIVE_STALE_NS + 100 * MS, from_ns + gone_ns) == near(30)


@pytest.mark.parametrize(
    ("before", "after"), [(CoreMode.HARD, CoreMode.LEND), (CoreMode.LEND, CoreMode.HARD)]
)
async def test_a_mode_that_changes_under_a_running_program_holds_at_the_next_looks(
    native_build, before, after
):
    percents = {CoreMode.HARD: 30, CoreMode.LEND: 100}
    async with lockstep(native_build) as node:
        alone = node.container("alone")
        limit(alone, 30, before)
        tenant = await node.begin(alone, 4000)
        await node.run(2000 * MS)
        changed_ns = node.now_ns
        limit(alone, 30, after, generation=2)
        await node.end()

    assert tenant.between(changed_ns - 1000 * MS, changed_ns) == near(percents[before])
    seen_ns = changed_ns + 400 * MS  # other limits are looked for each quarter of a second
    assert tenant.between(seen_ns, seen_ns + 1000 * MS) == near(percents[after])


@pytest.mark.parametrize("mode", [CoreMode.HARD, CoreMode.LEND])
@pytest.mark.parametrize("kernel_ns", [MS // 10, MS])
@pytest.mark.parametrize("shares", [(30, 70), (50, 50), (10, 90), (20, 30, 50)])
async def test_tenants_of_a_saturated_card_get_what_each_was_promised(
    native_build, shares, kernel_ns, mode
):
    async with lockstep(native_build) as node:
        tenants = []
        for percent in shares:
            one = node.container(str(len(tenants)))
            limit(one, percent, mode)
            tenants.append(await node.begin(one, 6000, kernel_ns))
        await node.end()

    for tenant, percent in zip(tenants, shares, strict=True):
        from_ns = tenant.begun_ns + 2000 * MS
        assert tenant.between(from_ns, from_ns + 3900 * MS) == near(percent)


@pytest.mark.parametrize("slice_ms", [1, 2, 9])
async def test_the_simulated_device_changes_between_processes_after_each_slice(
    native_build, slice_ms
):
    """Who waits for each of his kernels waits for one slice of another that always has work, and gets as much."""
    async with lockstep(native_build, HAMID_SIM_SLICE_US=str(slice_ms * 1000)) as node:
        greedy, patient = node.container("greedy"), node.container("patient")
        for each in (greedy, patient):
            limit(each, 0, CoreMode.HARD)
        await node.begin(greedy, 2000)
        waiting = await node.begin(patient, 2000, how="sync")
        await node.end()

    assert waiting.worst_ns == (slice_ms + 1) * MS
    assert waiting.between(waiting.begun_ns + 200 * MS, waiting.begun_ns + 1800 * MS) == near(50)
