import fcntl
import os
import struct
from contextlib import contextmanager

import pytest

from hamid.aiokit.blocking import OneThread
from hamid.aiokit.latest import Latest
from hamid.errors import PageCorrupt
from hamid.hooks.abi import contract
from hamid.hooks.abi.usage import USAGE_PAGE_BYTES, USAGE_SLOT_BYTES, ProcessUsage, UsageReport
from hamid.hooks.monitor import UsageMonitor, read_usage
from tests.builders import UUID
from tests.hooks.abi.test_usage import usage_page

PROCESS = ProcessUsage(
    slot_index=0,
    pid=7,
    start_time_ticks=1007,
    pid_namespace=42,
    used_bytes_by_uuid=((UUID, 5_000),),
)
REPORT = UsageReport(processes=(PROCESS,))


def write_page(directory, *, slots=((1, 7, {0: 5_000}),)):
    path = directory / contract.USAGE_PAGE_NAME
    path.write_bytes(usage_page(*slots, names=(UUID.encode(),)))
    return path


@contextmanager
def living(page, *slot_indexes):
    """Processes that live in these slots."""
    descriptor = os.open(page, os.O_RDWR)
    try:
        for index in slot_indexes:
            lock = struct.pack(
                "@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, contract.slot_lock_offset(index), 1, 0
            )
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
        yield
    finally:
        os.close(descriptor)


def test_a_page_tells_what_living_processes_hold(tmp_path):
    page = write_page(tmp_path)

    with living(page, 0):
        assert read_usage(tmp_path) == REPORT


def test_a_process_that_was_killed_holds_nothing(tmp_path):
    page = write_page(tmp_path, slots=((1, 7, {0: 5_000}), (1, 8, {0: 9_000})))

    with living(page, 0):
        assert read_usage(tmp_path) == REPORT
    assert read_usage(tmp_path) == UsageReport()


def test_what_was_left_to_processes_is_held_while_one_of_them_lives(tmp_path):
    page = write_page(tmp_path, slots=((1, 7, {0: 5_000}), (3, 0, {0: 9_000})))

    with living(page, 0):
        assert read_usage(tmp_path).used_bytes(UUID) == 14_000
    assert read_usage(tmp_path) == UsageReport()


def test_reading_leaves_the_locks_as_they_are(tmp_path):
    page = write_page(tmp_path)

    read_usage(tmp_path)

    with living(page, 0):
        assert read_usage(tmp_path) == REPORT


def test_where_there_is_no_page_yet_nothing_is_reported(tmp_path):
    assert read_usage(tmp_path) is None
    assert read_usage(tmp_path / "gone") is None


def test_an_empty_page_says_that_nobody_uses_a_device(tmp_path):
    (tmp_path / contract.USAGE_PAGE_NAME).touch()

    assert read_usage(tmp_path) == UsageReport()


def symlink(path):
    (path.parent / "elsewhere").write_bytes(usage_page())
    path.symlink_to("elsewhere")


def oversized(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def device_node(path):
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero, which never ends
    except PermissionError:
        pytest.skip("device nodes need root")


@pytest.mark.parametrize(
    ("put", "complaint"),
    [
        pytest.param(symlink, "is no plain file", id="a link"),
        pytest.param(os.mkfifo, "is no plain file", id="a pipe that nobody writes"),
        pytest.param(os.mkdir, "is no plain file", id="a directory"),
        pytest.param(device_node, "is no plain file", id="a device node"),
        pytest.param(oversized, "has 1099511627776 bytes", id="a file without end"),
        pytest.param(lambda p: p.write_bytes(b"x"), "has 1 bytes", id="a file that is too short"),
        pytest.param(
            lambda p: p.write_bytes(b"x" * USAGE_PAGE_BYTES), "cannot be read", id="another file"
        ),
    ],
)
def test_what_a_tenant_puts_in_the_pages_place_is_refused_at_once(tmp_path, put, complaint):
    put(tmp_path / contract.USAGE_PAGE_NAME)

    with pytest.raises(PageCorrupt, match=complaint):
        read_usage(tmp_path)


def test_a_device_node_is_not_even_opened(tmp_path):
    path = tmp_path / contract.USAGE_PAGE_NAME
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(250, 250))  # nobody's: to open it would fail
    except PermissionError:
        pytest.skip("device nodes need root")

    with pytest.raises(PageCorrupt, match="is no plain file"):
        read_usage(tmp_path)


def test_a_page_that_claims_more_slots_than_there_are_is_read_to_its_end(tmp_path):
    path = tmp_path / contract.USAGE_PAGE_NAME
    path.write_bytes(usage_page((1, 7, {0: 1}), names=(UUID.encode(),), slots_end=2**32 - 1))

    with living(path, 0, 1023):
        assert [p.slot_index for p in read_usage(tmp_path).processes] == [0]
    assert USAGE_SLOT_BYTES * contract.SLOTS_MAX < USAGE_PAGE_BYTES


@pytest.fixture
def thread():
    thread = OneThread(name="files")
    yield thread
    thread.close()


@pytest.fixture
def monitor(tmp_path, thread):
    directories = {name: tmp_path / name for name in ("g1", "g2")}
    for directory in directories.values():
        directory.mkdir()
    return UsageMonitor(directories=lambda: directories, usage=Latest({}), thread=thread)


async def test_usage_is_published_by_grant(monitor, tmp_path):
    page = write_page(tmp_path / "g1")

    with living(page, 0):
        await monitor.step()

    assert monitor.usage.get() == {"g1": REPORT}


async def test_one_bad_page_spoils_no_other_and_is_complained_of_once(monitor, tmp_path, logs):
    page = write_page(tmp_path / "g1")
    bad = tmp_path / "g2" / contract.USAGE_PAGE_NAME
    bad.write_bytes(b"x")

    with living(page, 0):
        await monitor.step()
        await monitor.step()

    assert monitor.usage.get() == {"g1": REPORT}
    assert [entry["event"] for entry in logs] == ["usage page unreadable"]

    bad.write_bytes(b"")
    await monitor.step()
    bad.write_bytes(b"x")
    await monitor.step()

    assert [entry["grant_id"] for entry in logs] == ["g2", "g2"]


async def test_a_grant_that_is_gone_is_reported_no_more(monitor, tmp_path):
    page = write_page(tmp_path / "g1")
    with living(page, 0):
        await monitor.step()
        monitor.directories = dict
        await monitor.step()

    assert monitor.usage.get() == {}
