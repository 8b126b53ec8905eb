import os

import orjson
import pytest

from hamid.errors import StateError
from hamid.hooks.abi import contract
from hamid.hooks.abi.injection import MemoryTerms
from hamid.hooks.abi.pages import CoreMode, decode_control_page
from hamid.hooks.install import InstalledLibrary
from hamid.model.sharing import Sharing, SharingMode
from hamid.plugin.grants import GrantFiles, remove_tree
from hamid.plugin.settings import GrantMode
from tests.builders import make_share, uuid
from tests.plugin.values import MIB, make_grant


@pytest.fixture
def host(tmp_path):
    """A host with two cards, of which only the first has a device node."""
    (tmp_path / "dev").mkdir()
    for node in ("nvidia0", "nvidiactl"):
        (tmp_path / "dev" / node).touch()
    return tmp_path


@pytest.fixture
def new_files(host, thread):
    def new_files(mode=GrantMode.ENV):
        return GrantFiles(
            directory=host / "grants",
            cdi_dir=host / "cdi",
            mode=mode,
            library=InstalledLibrary(
                library_path=host / "libhamid.so", preload_path=host / "ld.so.preload"
            ),
            thread=thread,
            host_root=host,
            node_by_uuid={uuid(1): "/dev/nvidia0", uuid(2): "/dev/nvidia1"},
        )

    return new_files


def page(files, grant_id="g1"):
    return decode_control_page(
        (files.limits_dir(grant_id) / contract.CONTROL_PAGE_NAME).read_bytes()
    )


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def mode_of(path):
    return path.stat().st_mode & 0o777


async def test_the_limits_are_on_the_hosts_page(new_files):
    files = new_files()

    await files.write(make_grant("g1", make_share(memory_mib=3_000, core_percent=30)))

    (device,) = page(files).devices
    assert (device.device_uuid, device.memory_bytes, device.core_percent) == (
        uuid(1),
        3_000 * MIB,
        30,
    )


async def test_what_a_node_says_of_memory_is_on_the_page(new_files):
    files = new_files()
    files.terms = MemoryTerms(context_mib=450, scaling=1.5)

    await files.write(make_grant("g1", make_share(memory_mib=3_000)))

    (device,) = page(files).devices
    assert (device.memory_bytes, device.context_bytes, device.fixed_bytes) == (
        3_000 * MIB,
        450 * MIB,
        2_000 * MIB,
    )


async def test_how_time_is_shared_is_on_the_page_as_pod_or_node_says(new_files):
    files = new_files()
    files.sharing_mode = SharingMode.LEND
    files.trusts_mps = True

    await files.write(make_grant("g1"))
    await files.write(make_grant("g2", sharing=Sharing(mode=SharingMode.PRIORITY, weight=3)))

    assert (page(files).mode, page(files).devices[0].weight) == (CoreMode.LEND, 1)
    assert (page(files, "g2").mode, page(files, "g2").devices[0].weight) == (CoreMode.PRIORITY, 3)
    assert page(files).trusts_mps


async def test_the_page_grows_older_also_when_another_daemon_writes_it(new_files):
    await new_files().write(make_grant())
    files = new_files()

    await files.write(make_grant("g1", make_share(memory_mib=5)))
    await files.write(make_grant("g2", pod_name="pod-2"))

    assert page(files).generation == 2
    assert page(files, "g2").generation == 1


async def test_a_page_that_was_damaged_is_replaced(new_files):
    files = new_files()
    await files.write(make_grant())
    (files.limits_dir("g1") / contract.CONTROL_PAGE_NAME).write_bytes(b"")

    await files.write(make_grant())

    assert page(files).generation == 1


async def test_containers_of_any_user_read_limits_and_write_use_whatever_the_umask(new_files):
    files = new_files()
    before = os.umask(0o077)
    try:
        await files.write(make_grant())
    finally:
        os.umask(before)

    assert mode_of(files.limits_dir("g1")) == 0o755
    assert mode_of(files.limits_dir("g1") / contract.CONTROL_PAGE_NAME) == 0o644
    assert mode_of(files.usage_dir("g1")) == 0o755
    assert mode_of(files.usage_dir("g1") / contract.USAGE_PAGE_NAME) == 0o666


async def test_the_answer_has_mounts_environment_and_nodes(new_files):
    files = new_files()

    answer = await files.write(make_grant())

    assert answer.envs[contract.ENV_GRANT_ID] == "g1"
    assert {m.container_path: m.is_read_only for m in answer.mounts} == {
        contract.LIBRARY_PATH: True,
        contract.PRELOAD_PATH: True,
        contract.LIMITS_DIR: True,
        contract.USAGE_PAGE_PATH: False,
    }
    assert [n.host_path for n in answer.device_nodes] == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert answer.cdi_devices == ()


async def test_all_of_the_hosts_disk_that_a_container_writes_is_one_file(new_files):
    """Of a directory a tenant could fill the node's disk, and use up its inodes."""
    files = new_files()

    answer = await files.write(make_grant())

    (writable,) = (mount for mount in answer.mounts if not mount.is_read_only)
    page_path = files.usage_dir("g1") / contract.USAGE_PAGE_NAME
    assert (writable.host_path, page_path.is_file()) == (str(page_path), True)


async def test_a_container_that_starts_again_finds_what_its_processes_wrote(new_files):
    files = new_files()
    await files.write(make_grant())
    page_path = files.usage_dir("g1") / contract.USAGE_PAGE_NAME
    page_path.write_bytes(b"written")

    await files.write(make_grant())

    assert page_path.read_bytes() == b"written"


async def test_a_link_that_a_tenant_of_an_earlier_release_left_is_not_followed(new_files, host):
    files = new_files()
    precious = host / "precious"
    precious.touch(mode=0o600)
    files.usage_dir("g1").mkdir(parents=True)
    (files.usage_dir("g1") / contract.USAGE_PAGE_NAME).symlink_to(precious)

    await files.write(make_grant())

    assert mode_of(precious) == 0o600


async def test_nodes_that_the_host_lacks_do_not_enter(new_files):
    answer = await new_files().write(make_grant("g1", make_share(device_uuid=uuid(2))))

    assert answer.device_nodes == ()


async def test_with_cdi_the_answer_is_a_name_and_all_else_is_in_the_spec(new_files, host):
    files = new_files(GrantMode.CDI)

    answer = await files.write(make_grant())

    assert answer.cdi_devices == ("hamid.io/grant=g1",)
    assert answer.envs == {contract.ENV_GRANT_ID: "g1", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert (answer.mounts, answer.device_nodes) == ((), ())
    spec = orjson.loads((host / "cdi" / "hamid-g1.json").read_bytes())
    edits = spec["devices"][0]["containerEdits"]
    assert len(edits["mounts"]) == 4
    assert f"NVIDIA_VISIBLE_DEVICES={uuid(1)}" in edits["env"]


async def test_a_kubelet_that_drops_cdi_names_is_answered_with_all_that_enters(new_files, host):
    """Else the container would start without limits, and where images name all cards, with all."""
    by_cdi, by_env = new_files(GrantMode.CDI), new_files(GrantMode.ENV)
    by_cdi.takes_cdi_names = False

    answer = await by_cdi.write(make_grant())

    assert not by_cdi.can_mend
    assert answer == await by_env.write(make_grant())
    # For containers that were answered with its name before.
    assert names_in(host / "cdi") == ["hamid-g1.json"]


async def test_a_grant_rewritten_for_its_true_owner_keeps_its_name(new_files, host):
    files = new_files(GrantMode.CDI)
    before = await files.write(make_grant())

    after = await files.write(make_grant("g1", make_share(device_uuid=uuid(2)), pod_name="b"))

    assert after == before
    assert uuid(2) in (host / "cdi" / "hamid-g1.json").read_text()
    assert names_in(host / "cdi") == ["hamid-g1.json"]


@pytest.mark.parametrize(("mode", "can_mend"), [(GrantMode.ENV, False), (GrantMode.CDI, True)])
def test_only_cdi_can_change_cards_after_the_answer(new_files, mode, can_mend):
    assert new_files(mode).can_mend is can_mend


async def test_a_removed_grant_leaves_nothing(new_files, host):
    files = new_files(GrantMode.CDI)
    await files.write(make_grant())
    assert await files.grant_ids() == {"g1"}

    for _ in range(2):
        await files.remove("g1")

    assert await files.grant_ids() == frozenset()
    assert names_in(host / "cdi") == []


async def test_before_the_first_grant_there_are_none(new_files):
    assert await new_files().grant_ids() == frozenset()


async def test_a_disk_that_takes_nothing_is_named(new_files, host):
    (host / "grants").touch()

    with pytest.raises(StateError, match="limits for container 'train' of pod default/pod-1"):
        await new_files().write(make_grant())


def test_whatever_a_tenant_left_is_removed_and_no_link_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    usage = tmp_path / "g1" / "usage"
    (usage / "deep").mkdir(parents=True)
    (usage / "deep" / "file").touch()
    (usage / "link").symlink_to(outside, target_is_directory=True)
    (usage / "deep" / "link").symlink_to(outside / "precious")
    os.mkfifo(usage / "pipe")

    remove_tree(tmp_path, "g1")

    assert names_in(tmp_path) == ["outside"]
    assert names_in(outside) == ["precious"]


@pytest.mark.slow
def test_directories_without_end_are_removed_all_the_same(tmp_path):
    """Deeper than Python recurses, than descriptors go, and than a path may be long."""
    (tmp_path / "g1").mkdir()
    at = os.open(tmp_path / "g1", os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("d" * 20, dir_fd=at)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)

    remove_tree(tmp_path, "g1")

    assert names_in(tmp_path) == []


def test_a_file_in_a_directorys_place_is_removed(tmp_path):
    (tmp_path / "g1").touch()

    remove_tree(tmp_path, "g1")

    assert names_in(tmp_path) == []
