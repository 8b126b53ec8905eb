"""Memory that several processes have is charged once: to its maker, then to whoever has it still."""

import json

import pytest

from tests.native.container import CARD, MIB, Container
from tests.native.stepwise import said

pytestmark = pytest.mark.native

LIMIT_MIB = 512
UNIT_MIB = 32
BLOCKS = LIMIT_MIB // UNIT_MIB
SUCCESS, OUT_OF_MEMORY = 0, 2
KINDS = ["ipc", "handle", "pool"]
SIGKILL = 9


@pytest.fixture
def share(container):
    """Runs `share`: its maker in a container of 512 MiB, on a card where contexts cost nothing."""
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("name=", "context_mib=0\nname="))
    container.limit((CARD, LIMIT_MIB))

    def run(kind, goes="last", openings=1, *directories, status=0):
        done = container.run("share", kind, UNIT_MIB, goes, openings, *directories)
        assert done.returncode == status, done.stdout + done.stderr
        lines = map(json.loads, done.stdout.splitlines())
        return {
            (line["who"], line["when"]): (
                line["count"],
                line["result"],
                line["charged"] // MIB,
                line["physical"] // MIB,
                line["told"] // MIB,
            )
            for line in lines
        }

    return run


@pytest.fixture
def other(native_build, tmp_path):
    (tmp_path / "other").mkdir()
    with Container(native_build, tmp_path / "other") as other:
        yield other


FULL = (LIMIT_MIB, LIMIT_MIB, LIMIT_MIB)
"""What the maker of all is charged and has, and what its container is told that it holds."""
MADE = {
    ("maker", "made"): (BLOCKS, OUT_OF_MEMORY, *FULL),
    ("maker", "exported"): (BLOCKS, SUCCESS, *FULL),
    ("maker", "while imported"): (BLOCKS, SUCCESS, *FULL),
}
OTHERS = (0, 0, LIMIT_MIB)
"""What who has it open is charged himself, and has of the device, while it is counted."""
NOTHING = (0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_of_the_container_that_imports_memory_is_charged_nothing_for_it(share, kind):
    assert share(kind) == MADE | {
        ("importer", "imported"): (BLOCKS, SUCCESS, *OTHERS),
        ("importer", "took one more"): (BLOCKS, OUT_OF_MEMORY, *OTHERS),
        ("importer", "closed"): (0, SUCCESS, *OTHERS),
        ("maker", "importer gone"): (BLOCKS, SUCCESS, *FULL),
        ("maker", "freed"): (0, SUCCESS, *NOTHING),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("goes", "status"), [("frees", 0), ("ends", 0), ("dies", -SIGKILL)])
@pytest.mark.parametrize("openings", [1, 2])
def test_what_was_imported_is_charged_until_the_last_has_closed_it(
    share, kind, goes, status, openings
):
    told = share(kind, goes, openings, status=status)

    steps = {
        ("importer", "imported"): (openings * BLOCKS, SUCCESS, *OTHERS),
        ("importer", "took one more"): (openings * BLOCKS, OUT_OF_MEMORY, *OTHERS),
        ("importer", "closed"): (0, SUCCESS, *NOTHING),
    }
    if openings == 2:
        steps["importer", "closed once"] = (BLOCKS, OUT_OF_MEMORY, *OTHERS)
    if goes == "frees":
        steps["maker", "freed"] = (0, SUCCESS, *OTHERS)
        steps["maker", "importer gone"] = (0, SUCCESS, *NOTHING)
    assert told == MADE | steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("goes", ["last", "frees"])
def test_another_container_that_imports_memory_is_charged_for_it_too(share, other, kind, goes):
    """Each holds it, whichever ends first; and what it has besides is within its limit."""
    other.limit((CARD, LIMIT_MIB + UNIT_MIB // 2))

    told = share(kind, goes, 1, other.limits_dir, other.usage_dir)

    by_itself = LIMIT_MIB if kind == "handle" else 0  # whose size only its mappings tell
    importer = {step: figures for (who, step), figures in told.items() if who == "importer"}
    assert importer == {
        "imported": (BLOCKS, SUCCESS, by_itself, 0, LIMIT_MIB),
        "took one more": (BLOCKS, OUT_OF_MEMORY, by_itself, 0, LIMIT_MIB),
        "closed": (0, SUCCESS, *NOTHING),
    }
    freed = (0, SUCCESS, *NOTHING)
    assert told["maker", "freed"] == freed
    assert told["maker", "while imported"] == MADE["maker", "while imported"]


@pytest.mark.parametrize("kind", KINDS)
def test_another_container_can_import_no_more_than_its_limit(share, other, kind):
    other.limit((CARD, 3 * UNIT_MIB))

    told = share(kind, "last", 1, other.limits_dir, other.usage_dir)

    assert told["importer", "imported"][:2] == (3, OUT_OF_MEMORY)
    assert told["importer", "closed"] == (0, SUCCESS, *NOTHING)


IN_ONE_PROCESS = f"""
class Props(Structure):
    _fields_ = [("type", c_int), ("types", c_int), ("place", c_int * 2), ("rest", c_ulonglong * 2)]
props = Props(type=1, types=1, place=(1, 0))
handle, fd, imported, again = c_ulonglong(), c_int(-1), c_ulonglong(), c_ulonglong()
kept = []
size = c_size_t({UNIT_MIB * MIB})
steps.say("made", cuda.cuMemCreate(byref(handle), size, byref(props), c_ulonglong(0)))
steps.say("exported", cuda.cuMemExportToShareableHandle(byref(fd), handle, 1, c_ulonglong(0)))
steps.say("imported", cuda.cuMemImportFromShareableHandle(byref(imported), c_void_p(fd.value), 1))
steps.say("imported again", cuda.cuMemImportFromShareableHandle(byref(again), c_void_p(os.dup(fd.value)), 1))
steps.say("first released", cuda.cuMemRelease(handle))
steps.say("second released", cuda.cuMemRelease(imported))
steps.say("exported again", cuda.cuMemExportToShareableHandle(byref(fd), again, 1, c_ulonglong(0)))
steps.say("imported once more", cuda.cuMemImportFromShareableHandle(byref(imported), c_void_p(fd.value), 1))
steps.say("third released", cuda.cuMemRelease(again))
at = c_ulonglong()
assert cuda.cuMemAddressReserve(byref(at), size, c_size_t(0), c_ulonglong(0), c_ulonglong(0)) == 0
steps.say("mapped", cuda.cuMemMap(at, size, c_size_t(0), imported, c_ulonglong(0)))
steps.say("last released", cuda.cuMemRelease(imported))
steps.say("unmapped", cuda.cuMemUnmap(at, size))
"""


def test_one_s_own_memory_imported_is_charged_until_the_last_handle_or_mapping_goes(container):
    container.limit((CARD, LIMIT_MIB))

    steps = said(container, "import os\n" + IN_ONE_PROCESS)

    held = dict.fromkeys(steps, (SUCCESS, UNIT_MIB, 0))
    assert steps == held | {"unmapped": (SUCCESS, 0, 0)}


ROUND_AND_ROUND = f"""
class Props(Structure):
    _fields_ = [("type", c_int), ("types", c_int), ("place", c_int * 2), ("rest", c_ulonglong * 2)]
props = Props(type=1, types=1, place=(1, 0))
for i in range({BLOCKS} + 1):
    handle, fd, imported = c_ulonglong(), c_int(-1), c_ulonglong()
    made = cuda.cuMemCreate(byref(handle), c_size_t({UNIT_MIB * MIB}), byref(props), c_ulonglong(0))
    if made == 0:
        assert cuda.cuMemExportToShareableHandle(byref(fd), handle, 1, c_ulonglong(0)) == 0
        assert cuda.cuMemImportFromShareableHandle(byref(imported), c_void_p(fd.value), 1) == 0
        assert cuda.cuMemRelease(handle) == 0
    steps.say(str(i), made)
"""


def test_making_importing_and_letting_go_in_turns_is_no_way_past_the_limit(container):
    container.limit((CARD, LIMIT_MIB))

    steps = said(container, ROUND_AND_ROUND)

    assert steps == {str(i): (SUCCESS, (i + 1) * UNIT_MIB, 0) for i in range(BLOCKS)} | {
        str(BLOCKS): (OUT_OF_MEMORY, LIMIT_MIB, 0)
    }


MAKER = f"""
import sys
from ctypes import *
cuda, context, address, handle = CDLL("libcuda.so.1"), c_void_p(), c_ulonglong(), (c_ubyte * 64)()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(byref(address), c_size_t({UNIT_MIB * MIB})) == 0
assert cuda.cuIpcGetMemHandle(handle, address) == 0
sys.stdout.buffer.write(bytes(handle))
sys.stdout.buffer.flush()
sys.stdin.read()
"""
IMPORTER_THAT_RESETS = f"""
import subprocess
class Handle(Structure):
    _fields_ = [("bytes", c_ubyte * 64)]
def say(what, result):
    assert cuda.cuMemGetInfo_v2(byref(c_size_t()), byref(c_size_t())) == 0  # who is gone is cleared
    steps.say(what, result)
maker = subprocess.Popen(
    [sys.executable, "-c", {MAKER!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
handle, address = Handle.from_buffer_copy(maker.stdout.read(64)), c_ulonglong()
say("opened", cuda.cuIpcOpenMemHandle_v2(byref(address), handle, 1))
maker.kill()
maker.wait()
say("maker killed", 0)
say("reset", cuda.cuDevicePrimaryCtxReset_v2(0))
"""


def test_what_a_context_has_open_goes_with_it(container):
    container.limit((CARD, LIMIT_MIB))

    steps = said(container, IMPORTER_THAT_RESETS)

    held = (SUCCESS, UNIT_MIB, 0)
    assert steps == {"opened": held, "maker killed": held, "reset": (SUCCESS, 0, 0)}


FROM_ELSEWHERE = f"""
import os
fd = os.memfd_create("hamid-sim-memory {CARD}")
os.truncate(fd, {UNIT_MIB * MIB})
size, none = c_size_t({UNIT_MIB * MIB}), c_ulonglong(0)
handle, again, places = c_ulonglong(), c_ulonglong(), (c_ulonglong(), c_ulonglong())
for place in places:
    assert cuda.cuMemAddressReserve(byref(place), size, c_size_t(0), none, none) == 0
steps.say("imported", cuda.cuMemImportFromShareableHandle(byref(handle), c_void_p(fd), 1))
steps.say("mapped", cuda.cuMemMap(places[0], size, c_size_t(0), handle, none))
steps.say("released", cuda.cuMemRelease(handle))
steps.say("retained", cuda.cuMemRetainAllocationHandle(byref(again), c_void_p(places[0].value)))
steps.say("mapped again", cuda.cuMemMap(places[1], size, c_size_t(0), again, none))
steps.say("released again", cuda.cuMemRelease(again))
steps.say("first unmapped", cuda.cuMemUnmap(places[0], size))
steps.say("second unmapped", cuda.cuMemUnmap(places[1], size))
"""


def test_each_mapping_of_a_handle_that_nobody_here_made_is_charged(container):
    container.limit((CARD, LIMIT_MIB))

    steps = said(container, FROM_ELSEWHERE)

    mapped = zip(steps, (0, 1, 1, 1, 2, 2, 1, 0), strict=True)
    assert steps == {step: (SUCCESS, count * UNIT_MIB, 0) for step, count in mapped}
