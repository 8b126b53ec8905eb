"""Where a limit cannot be known, there is no memory and one line that says what to do."""

import os
import shutil
import stat
import struct
import zlib

import pytest

from hamid.hooks.abi.contract import CONTROL_PAGE_NAME, USAGE_PAGE_NAME
from hamid.hooks.abi.usage import USAGE_PAGE_BYTES
from tests.native.container import CARD, CARD_MIB, limits
from tests.native.stepwise import said

pytestmark = pytest.mark.native

NOT_PERMITTED = "CUDA_ERROR_NOT_PERMITTED"
NVML_NO_PERMISSION = 4

GOOD = limits((CARD, 3000))
FLIPPED = bytes([*GOOD[:180], GOOD[180] ^ 1, *GOOD[181:]])


def sealed(offset: int, patch: bytes) -> bytes:
    """A page that its checksum does not betray: wrong in this place alone."""
    page = bytearray(GOOD)
    page[offset : offset + len(patch)] = patch
    page[52:56] = bytes(4)
    page[52:56] = struct.pack("<I", zlib.crc32(page))
    return bytes(page)


TOO_SHORT = "it is too short"
MAGIC = "it does not start with the magic number"
VERSION = "it was written for another version of this library"
SIZES = "its parts have the wrong size"
LENGTH = "its length is not what its header says"
FLAGS = "its flags are unknown"
TERMS = "it has memory terms, but says it has none"
NO_TEXT = "a device's UUID is no text"


@pytest.mark.parametrize(
    ("page", "why"),
    [
        pytest.param(None, "No such file or directory", id="no page"),
        pytest.param(b"", TOO_SHORT, id="an empty page"),
        pytest.param(GOOD[:127], TOO_SHORT, id="half a header"),
        pytest.param(GOOD[:-1], LENGTH, id="a page cut short"),
        pytest.param(GOOD + b"\0", LENGTH, id="a page with more behind it"),
        pytest.param(GOOD + bytes(9000), LENGTH, id="a page with much more behind it"),
        pytest.param(FLIPPED, "its checksum is wrong", id="a flipped bit"),
        pytest.param(bytes(len(GOOD)), MAGIC, id="zeroes"),
        pytest.param(b"\xff" * len(GOOD), MAGIC, id="ones"),
        pytest.param(b"memory = 3000\n" * 20, MAGIC, id="text"),
        pytest.param(sealed(8, b"\x02"), VERSION, id="another version"),
        pytest.param(sealed(47, b"\x80"), VERSION, id="a feature that we do not know"),
        pytest.param(sealed(16, b"\x40"), SIZES, id="a shorter header"),
        pytest.param(sealed(20, b"\x40"), SIZES, id="shorter devices"),
        pytest.param(sealed(12, b"\x08"), LENGTH, id="another size"),
        pytest.param(sealed(24, b"\x02"), LENGTH, id="more devices than there are"),
        pytest.param(
            sealed(24, b"\xff" * 4), "it names too many devices", id="billions of devices"
        ),
        pytest.param(sealed(28, b"\x03"), "its mode is unknown", id="a mode that we do not know"),
        pytest.param(sealed(56, b"\x01"), FLAGS, id="flags without the feature"),
        pytest.param(sealed(127, b"\x01"), "reserved bytes are not zero", id="reserved bytes"),
        pytest.param(sealed(128, bytes(48)), NO_TEXT, id="a device without a name"),
        pytest.param(sealed(128, b"x" * 48), NO_TEXT, id="a name without an end"),
        pytest.param(sealed(130, b"\n"), NO_TEXT, id="a name with a line break"),
        pytest.param(sealed(130, b"\xff"), NO_TEXT, id="a name that is not ASCII"),
        pytest.param(
            sealed(184, b"\x65"), "a core limit is over 100 percent", id="a cap of 101 percent"
        ),
        pytest.param(sealed(192, b"\x01"), TERMS, id="memory terms without the feature"),
        pytest.param(
            sealed(255, b"\x01"),
            "reserved bytes of a device are not zero",
            id="reserved bytes of a device",
        ),
        pytest.param(
            limits((CARD, 3000), (CARD.replace("GPU", "MIG"), 3000)),
            "it names a device twice",
            id="one device twice",
        ),
    ],
)
def test_without_a_page_to_trust_there_is_no_memory_and_one_line_says_why(container, page, why):
    if page is not None:
        container.write_page(page)

    done = container.run("alloc_mib", 1, 1)

    assert done.stdout.count(NOT_PERMITTED) == 4  # twice the memory, twice the figures
    assert f'"nvmlDeviceGetMemoryInfo", "result": {NVML_NO_PERMISSION}' in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr == (
        f"hamid error: device memory is refused, for {container.limits_dir / CONTROL_PAGE_NAME} "
        f"cannot be trusted: {why}; the node's hamid daemon writes it: see its log, then delete the "
        "pod so that it is written anew\n"
    )


@pytest.mark.parametrize(
    "kind", ["directory", "pipe", "socket", "link to nowhere", "link to a loop"]
)
def test_what_is_no_file_is_no_page_and_nothing_waits_for_it(container, kind):
    path = container.limits_dir / CONTROL_PAGE_NAME
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    else:
        path.symlink_to("nowhere" if kind == "link to nowhere" else path.name)

    done = container.run("alloc_mib", 1, 1)

    assert done.stdout.count(NOT_PERMITTED) == 4
    assert len(done.stderr.splitlines()) == 1
    assert "delete the pod" in done.stderr


USAGE_VERSION_IS_OTHER = struct.pack("<QI", int.from_bytes(b"HAMIDUSE", "little"), 99)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(USAGE_VERSION_IS_OTHER, "it has the wrong size", id="a short page"),
        pytest.param(
            USAGE_VERSION_IS_OTHER.ljust(USAGE_PAGE_BYTES, b"\0"),
            "it is not a page of this version",
            id="another version",
        ),
        pytest.param(
            b"x" * USAGE_PAGE_BYTES, "it is not a page of this version", id="another file"
        ),
    ],
)
def test_books_that_cannot_be_kept_give_no_memory_and_one_line_says_why(container, content, why):
    container.limit((CARD, 100))
    path = container.usage_dir / USAGE_PAGE_NAME
    path.write_bytes(content)

    done = container.run("alloc_mib", 1, 1)

    assert done.stdout.count(NOT_PERMITTED) == 4
    assert done.stderr == (
        f"hamid error: device memory is refused, for it cannot be counted in {path}: {why}; the "
        "file has to be writable for every user of the container: delete the pod so that it is "
        "made anew\n"
    )
    assert path.read_bytes() == content


def test_a_page_that_becomes_unreadable_takes_no_memory_away(container):
    container.limit((CARD, 100))
    tenant = container.start(60)

    container.write_page(b"nonsense")
    assert tenant.alloc(1) == NOT_PERMITTED
    assert tenant.tell("free").results("cuMemFree") == ["CUDA_SUCCESS"]

    container.limit((CARD, 100))
    assert tenant.alloc(100) == "CUDA_SUCCESS"


def test_memory_that_cannot_be_counted_is_not_given(container):
    container.limit((CARD, 100))
    os.mkfifo(container.usage_dir / USAGE_PAGE_NAME)

    done = container.run("alloc_mib", 1, 1)

    assert done.stdout.count(NOT_PERMITTED) == 4  # twice the memory, twice the figures
    assert len(done.stderr.splitlines()) == 1
    assert str(container.usage_dir / USAGE_PAGE_NAME) in done.stderr


ASYNC = """
address = c_ulonglong()
steps.say("asked", cuda.cuMemAllocAsync(byref(address), c_size_t(MIB), stream))
"""
NOT_PERMITTED_NUMBER = 800


@pytest.mark.parametrize("broken", ["control page", "usage page"])
def test_memory_in_order_of_a_stream_is_refused_for_the_same_reason(container, broken):
    container.limit((CARD, 100))
    if broken == "control page":
        container.write_page(b"nonsense")
    else:
        (container.usage_dir / USAGE_PAGE_NAME).mkdir()

    assert said(container, ASYNC)["asked"] == (NOT_PERMITTED_NUMBER, 0, 0)


def test_outside_a_container_of_ours_nothing_is_limited(container):
    shutil.rmtree(container.limits_dir)

    answers = container.alloc(CARD_MIB, 1)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]
    assert answers.only("cuMemGetInfo")["total_mib"] == CARD_MIB


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"CUDA_DEVICE_MEMORY_LIMIT_0": "40g"}, id="HAMi's limit"),
        pytest.param({"CUDA_DEVICE_MEMORY_LIMIT": "0"}, id="HAMi's limit, off"),
        pytest.param({"CUDA_DISABLE_CONTROL": "true"}, id="HAMi's switch"),
        pytest.param({"CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/other"}, id="HAMi's region"),
        pytest.param({"HAMID_LIMITS_DIR": "/nonexistent"}, id="a name like ours"),
        pytest.param({"HAMID_LOG": "off"}, id="silence"),
    ],
)
def test_no_environment_raises_the_limit(container, env):
    container.limit((CARD, 100))

    answers = container.alloc(100, 1, env=env)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]


ODD_TEXTS = ["", " ", "%s%n%p%999999d", "x" * 100_000, "\udcff\udcfe\x01\n", "-1", "1e999", "nan"]
READ_NAMES = ["HAMID_LOG", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PIPE_DIRECTORY"]


@pytest.mark.parametrize("name", READ_NAMES)
@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: repr(text[:8]))
def test_no_text_in_what_is_read_of_the_environment_changes_the_limit(container, name, text):
    container.limit((CARD, 100))

    answers = container.alloc(100, 1, env={name: text})

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]
