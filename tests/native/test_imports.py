"""Memory that another process uses, too, is charged to whoever made it, and to nobody else."""

import json

import pytest

from tests.native.container import CARD, MIB, Container

pytestmark = pytest.mark.native

LIMIT_MIB = 512
UNIT_MIB = 32
BLOCKS = LIMIT_MIB // UNIT_MIB
SUCCESS, OUT_OF_MEMORY = 0, 2
KINDS = ["ipc", "handle", "pool"]


@pytest.fixture
def share(container):
    """Runs `share`: its maker in a container of 512 MiB, on a card where contexts cost nothing."""
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("name=", "context_mib=0\nname="))
    container.limit((CARD, LIMIT_MIB))

    def run(kind, *directories):
        done = container.run("share", kind, UNIT_MIB, *directories)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = map(json.loads, done.stdout.splitlines())
        return {
            (line["who"], line["when"]): (
                line["count"],
                line["result"],
                line["charged"] // MIB,
                line["physical"] // MIB,
            )
            for line in lines
        }

    return run


def moments(*, took_one_more):
    """All blocks are charged to the maker, and the driver's figure is the same, until it frees them."""
    held = (LIMIT_MIB, LIMIT_MIB)
    result, took_mib = took_one_more
    return {
        ("maker", "made"): (BLOCKS, OUT_OF_MEMORY, *held),
        ("maker", "exported"): (BLOCKS, SUCCESS, *held),
        ("importer", "imported"): (BLOCKS, SUCCESS, 0, 0),
        ("maker", "while imported"): (BLOCKS, SUCCESS, *held),
        ("importer", "took one more"): (BLOCKS, result, took_mib, took_mib),
        ("importer", "closed"): (0, SUCCESS, 0, 0),
        ("maker", "importer gone"): (BLOCKS, SUCCESS, *held),
        ("maker", "freed"): (0, SUCCESS, 0, 0),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_of_the_container_that_imports_memory_is_charged_nothing_for_it(share, kind):
    assert share(kind) == moments(took_one_more=(OUT_OF_MEMORY, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_another_container_that_imports_memory_keeps_its_own_limit_whole(
    share, kind, native_build, tmp_path
):
    (tmp_path / "other").mkdir()
    with Container(native_build, tmp_path / "other") as other:
        other.limit((CARD, UNIT_MIB))

        told = share(kind, other.limits_dir, other.usage_dir)

    assert told == moments(took_one_more=(SUCCESS, UNIT_MIB))
