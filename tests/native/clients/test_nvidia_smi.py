"""The real nvidia-smi, from Debian's non-free package, beside a tenant, on a card that others use.

Its list of processes it takes from a table without names, which the simulated library does not have: it stays empty.
"""

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, UUID, real_client

pytestmark = real_client("nvidia-smi")

HELD_MIB = 60
OTHER_MIB = 100
OTHER_PERCENT = 80
MEMORY = ("--query-gpu=memory.total,memory.used,memory.free,uuid", "--format=csv,noheader,nounits")
LOAD = ("--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")


def nvidia_smi(client, *arguments, is_limited):
    (program,) = client.directory.glob("usr/lib/nvidia/*/nvidia-smi")
    return client.run(program, *arguments, is_limited=is_limited)


def have_neighbour(client):
    client.have_neighbour(pid=4242, memory_mib=OTHER_MIB, gpu_percent=OTHER_PERCENT)


def test_it_lists_the_card(client):
    listed = nvidia_smi(client, "-L", is_limited=True)

    assert listed == f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUID})\n"


def test_it_shows_the_whole_of_a_bare_card(client):
    have_neighbour(client)

    shown = nvidia_smi(client, *MEMORY, is_limited=False)

    assert shown == f"{CARD_MIB}, {OTHER_MIB}, {CARD_MIB - OTHER_MIB}, {UUID}\n"
    assert f"{OTHER_MIB}MiB /  {CARD_MIB}MiB" in nvidia_smi(client, is_limited=False)
    assert nvidia_smi(client, *LOAD, is_limited=False) == f"{OTHER_PERCENT}\n"


def test_it_shows_the_slice_and_what_the_container_holds_of_it(client):
    have_neighbour(client)
    client.container.start(HELD_MIB)

    shown = nvidia_smi(client, *MEMORY, is_limited=True)

    assert shown == f"{LIMIT_MIB}, {HELD_MIB}, {LIMIT_MIB - HELD_MIB}, {UUID}\n"
    assert f"{HELD_MIB}MiB /   {LIMIT_MIB}MiB" in nvidia_smi(client, is_limited=True)


def test_under_a_cap_it_shows_the_container_s_own_load(client):
    have_neighbour(client)
    client.limit(core_percent=30)

    assert nvidia_smi(client, *LOAD, is_limited=True) == "0\n"


def test_its_long_report_ends_well(client):
    assert UUID in nvidia_smi(client, "-q", is_limited=True)
