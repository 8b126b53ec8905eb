"""The real nvidia-smi, from Debian's non-free package."""

from tests.native.clients.machine import CARD_MIB, LIMIT_MIB, UUID, real_client

pytestmark = real_client("nvidia-smi")

QUERY = ("--query-gpu=memory.total,memory.used,uuid", "--format=csv,noheader,nounits")


def nvidia_smi(client, *arguments, is_limited):
    (program,) = client.directory.glob("usr/lib/nvidia/*/nvidia-smi")
    return client.run(program, *arguments, is_limited=is_limited)


def test_it_lists_the_card(client):
    listed = nvidia_smi(client, "-L", is_limited=True)

    assert listed == f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUID})\n"


def test_it_shows_the_whole_of_a_bare_card(client):
    assert nvidia_smi(client, *QUERY, is_limited=False) == f"{CARD_MIB}, 0, {UUID}\n"
    assert f"0MiB /  {CARD_MIB}MiB" in nvidia_smi(client, is_limited=False)


def test_it_shows_the_slice(client):
    assert nvidia_smi(client, *QUERY, is_limited=True) == f"{LIMIT_MIB}, 0, {UUID}\n"
    assert f"0MiB /   {LIMIT_MIB}MiB" in nvidia_smi(client, is_limited=True)


def test_its_long_report_ends_well(client):
    assert UUID in nvidia_smi(client, "-q", is_limited=True)
