import pytest

from hamid.hooks.abi import contract
from hamid.hooks.abi.live import CONTENDED, decode_live_page, flags_word
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit
from hamid.hooks.live_page import LivePage

LIMITS = ContainerLimits(
    devices=(
        DeviceLimit(device_uuid="GPU-1", memory_bytes=None, core_percent=30),
        DeviceLimit(device_uuid="GPU-2", memory_bytes=None, core_percent=40),
    ),
    priority=1,
    generation=7,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / contract.LIVE_PAGE_NAME


def test_what_is_said_is_in_the_file_at_once(tmp_path, path):
    page = LivePage.open(tmp_path, LIMITS)
    page.say(1, 450, is_contended=True)
    page.beat(99)
    found = path.read_bytes()
    page.close()

    assert decode_live_page(found).rate_by_uuid == (("GPU-1", 0), ("GPU-2", 450))
    assert decode_live_page(found).heartbeat_ns == 99
    assert memoryview(found).cast("Q")[flags_word(1)] == CONTENDED


def test_containers_of_any_user_can_read_it_and_only_the_host_write(tmp_path, path):
    LivePage.open(tmp_path, LIMITS).close()

    assert path.stat().st_mode & 0o777 == 0o644


def test_a_page_that_is_right_is_kept_as_it_is(tmp_path, path):
    first = LivePage.open(tmp_path, LIMITS)
    first.say(0, 300, is_contended=False)
    first.close()
    inode = path.stat().st_ino
    LivePage.open(tmp_path, LIMITS).close()

    assert path.stat().st_ino == inode
    assert decode_live_page(path.read_bytes()).rate_by_uuid[0] == ("GPU-1", 300)


@pytest.mark.parametrize("content", [b"", b"x" * 256, None])
def test_a_page_that_is_none_is_replaced_never_written_into(tmp_path, path, content):
    if content is None:
        other = ContainerLimits(devices=LIMITS.devices, priority=1, generation=6)
        LivePage.open(tmp_path, other).close()
    else:
        path.write_bytes(content)
    inode = path.stat().st_ino
    LivePage.open(tmp_path, LIMITS).close()

    assert path.stat().st_ino != inode
    assert decode_live_page(path.read_bytes()).generation == 7
