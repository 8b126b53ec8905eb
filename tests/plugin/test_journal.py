import asyncio
import errno
import os

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamid.codec.jsontext import ShapeError
from hamid.errors import StateError
from hamid.model.device import DeviceShare
from hamid.model.sharing import Sharing, SharingMode
from hamid.plugin.journal import Grant, Journal, decode_grant, encode_grant
from tests.builders import make_share
from tests.plugin.values import make_grant

names = st.text(min_size=1)
amounts = st.integers(0, 2**31 - 1)
grants = st.builds(
    Grant,
    grant_id=names,
    pod_uid=names,
    namespace=names,
    pod_name=names,
    container_name=names,
    slot_ids=st.lists(names).map(tuple),
    shares=st.lists(
        st.builds(DeviceShare, device_uuid=names, memory_mib=amounts, core_percent=amounts)
    ).map(tuple),
    priority=st.none() | amounts,
    sharing=st.builds(
        Sharing, mode=st.none() | st.sampled_from(SharingMode), weight=st.none() | amounts
    ),
    is_final=st.booleans(),
)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "journal"


async def opened(directory, thread):
    """The journal as a daemon that starts finds it."""
    journal = Journal(directory=directory, thread=thread)
    await journal.load()
    return journal


def files(directory):
    return sorted(path.name for path in directory.iterdir())


@given(grants)
def test_every_grant_survives_its_file(grant):
    assert decode_grant(encode_grant(grant)) == grant


RECORD = orjson.loads(encode_grant(make_grant()))


@pytest.mark.parametrize(
    ("sharing", "read"),
    [
        pytest.param(None, Sharing(), id="of an earlier release"),
        pytest.param({"mode": "x"}, Sharing(mode=SharingMode.HARD), id="a mode of a later one"),
    ],
)
def test_how_time_is_shared_is_read_from_other_releases_files_too(sharing, read):
    record = {**RECORD, "sharing": sharing}

    assert decode_grant(orjson.dumps(record)).sharing == read


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(encode_grant(make_grant())[:50], id="half a file"),
        pytest.param(b"[]", id="another shape"),
        *(
            pytest.param(orjson.dumps({**RECORD, key: value}), id=f"{key} is {value!r}")
            for key, value in [
                ("version", 2),
                ("version", None),
                ("grant_id", 7),
                ("pod_uid", ""),
                ("slot_ids", "GPU-1"),
                ("slot_ids", [1]),
                ("shares", {}),
                ("shares", [1]),
                ("shares", [{"uuid": "GPU-1", "memory_mib": "1", "core_percent": 0}]),
                ("priority", "high"),
                ("is_final", 1),
            ]
        ),
    ],
)
def test_what_is_no_grant_of_ours_is_refused(content):
    with pytest.raises(ShapeError):
        decode_grant(content)


async def test_a_grant_is_found_by_id_by_container_and_by_slots(directory, thread):
    journal = await opened(directory, thread)
    grant = make_grant(slot_ids=("a", "b"))

    await journal.write(grant)

    assert journal.grants() == (grant,)
    assert journal.served() == {("uid-of-pod-1", "train")}
    assert journal.by_id("g1") == journal.by_container(grant.key) == grant
    assert journal.by_slots(("b", "a")) == (grant,)
    assert journal.by_slots(("a",)) == ()
    assert journal.by_id("g2") is journal.by_container(("uid-of-pod-1", "other")) is None


async def test_a_restarted_daemon_knows_what_was_granted(directory, thread):
    first = await opened(directory, thread)
    await first.write(make_grant("g1"))
    await first.write(make_grant("g2", pod_name="pod-2", priority=0, is_final=True))

    again = await opened(directory, thread)

    assert again.grants() == first.grants()
    assert again.served() == first.served()


async def test_a_grant_is_on_disk_before_it_is_in_memory(directory, thread):
    journal = await opened(directory, thread)
    on_disk = []

    def look(path):
        on_disk.extend(files(path))

    async with asyncio.TaskGroup() as group:
        group.create_task(journal.write(make_grant()))
        await asyncio.sleep(0)  # the write is now with the thread
        assert journal.grants() == ()
        await thread.call(look, directory)

    assert on_disk == ["g1.json"]


async def test_writing_the_same_grant_again_changes_nothing(directory, thread):
    journal = await opened(directory, thread)

    for _ in range(2):
        await journal.write(make_grant())

    assert journal.grants() == (make_grant(),)
    assert files(directory) == ["g1.json"]


async def test_a_new_grant_takes_the_place_of_the_containers_old_one(directory, thread):
    journal = await opened(directory, thread)
    await journal.write(make_grant("g1"))

    await journal.write(make_grant("g2"))

    assert [grant.grant_id for grant in journal.grants()] == ["g2"]
    assert files(directory) == ["g2.json"]


async def test_a_grant_may_pass_to_another_container(directory, thread):
    journal = await opened(directory, thread)
    await journal.write(make_grant("g1"))

    await journal.write(make_grant("g1", pod_name="pod-2"))

    assert journal.served() == {("uid-of-pod-2", "train")}
    assert (await opened(directory, thread)).served() == journal.served()


async def test_two_containers_may_swap_their_grants_at_the_same_time(directory, thread):
    journal = await opened(directory, thread)
    await journal.write(make_grant("g1", pod_name="pod-1"))
    await journal.write(make_grant("g2", pod_name="pod-2"))

    async with asyncio.TaskGroup() as group:
        group.create_task(journal.write(make_grant("g1", pod_name="pod-2")))
        group.create_task(journal.write(make_grant("g2", pod_name="pod-1")))

    held = {(grant.pod_name, grant.grant_id) for grant in journal.grants()}
    assert held == {("pod-1", "g2"), ("pod-2", "g1")}
    assert files(directory) == ["g1.json", "g2.json"]


async def test_of_two_grants_of_one_container_on_disk_the_newer_file_counts(directory, thread):
    await opened(directory, thread)
    for age, grant_id in [(1, "new"), (9, "older"), (5, "old")]:
        path = directory / f"{grant_id}.json"
        path.write_bytes(encode_grant(make_grant(grant_id)))
        os.utime(path, ns=(0, 10**18 - age))

    journal = await opened(directory, thread)

    assert [grant.grant_id for grant in journal.grants()] == ["new"]
    assert files(directory) == ["new.json"]


async def test_a_write_that_a_crash_cut_off_leaves_nothing(directory, thread):
    await opened(directory, thread)
    (directory / ".g1.json.tmp").write_bytes(encode_grant(make_grant())[:50])

    journal = await opened(directory, thread)

    assert journal.grants() == ()
    assert files(directory) == []


@pytest.fixture
def flushes(monkeypatch):
    """The flushes to disk so far, by what was waited for."""
    called = []
    for name in ("fsync", "fdatasync"):
        flush = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda fd, name=name, flush=flush: (called.append(name), flush(fd))
        )
    return called


async def prepared(directory, thread, most=4):
    journal = Journal(directory=directory, thread=thread, prepared_most=most)
    await journal.load()
    return journal


async def test_a_new_grant_waits_for_the_disk_once_where_its_file_was_prepared(
    directory, thread, flushes
):
    journal = await prepared(directory, thread)
    flushes.clear()
    grant = make_grant(journal.new_grant_id())

    await journal.write(grant)

    assert flushes == ["fdatasync"]
    assert decode_grant((directory / f"{grant.grant_id}.json").read_bytes()) == grant
    assert (await opened(directory, thread)).grants() == (grant,)


async def test_a_grant_that_is_written_again_is_never_written_over(directory, thread, flushes):
    """What is on disk is good until what takes its place is."""
    journal = await prepared(directory, thread)
    grant = make_grant(journal.new_grant_id())
    await journal.write(grant)
    before = (directory / f"{grant.grant_id}.json").stat().st_ino
    flushes.clear()

    await journal.write(grant.finalized())

    assert flushes == ["fsync", "fsync"]
    assert (directory / f"{grant.grant_id}.json").stat().st_ino != before
    assert (await opened(directory, thread)).grants() == (grant.finalized(),)


async def test_files_are_prepared_anew_once_half_of_them_are_used(directory, thread):
    journal = await prepared(directory, thread)
    assert len(files(directory)) == 4

    for number in range(3):
        await journal.write(make_grant(journal.new_grant_id(), pod_name=f"pod-{number}"))
        await journal.prepare()
        left = 4 - 1 - number if number < 2 else 4
        assert len(files(directory)) == number + 1 + left


async def test_grants_go_on_where_no_file_is_prepared_any_more(directory, thread):
    journal = await prepared(directory, thread, most=1)
    ids = [journal.new_grant_id() for _ in range(3)]

    for number, grant_id in enumerate(ids):
        await journal.write(make_grant(grant_id, pod_name=f"pod-{number}"))

    assert len(set(ids)) == 3
    assert len((await opened(directory, thread)).grants()) == 3


async def test_files_that_were_prepared_and_not_used_are_no_grants(directory, thread, logs):
    await prepared(directory, thread)

    journal = await opened(directory, thread)

    assert journal.grants() == ()
    assert files(directory) == []
    assert not [line for line in logs if line["log_level"] != "info"]


async def test_where_nothing_can_be_prepared_nothing_fails(directory, thread):
    journal = await prepared(directory, thread)
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    while journal._prepared:
        journal.new_grant_id()

    await journal.prepare()

    with pytest.raises(StateError):
        await journal.write(make_grant(journal.new_grant_id()))


async def test_half_a_grant_is_none(directory, thread, monkeypatch):
    journal = await prepared(directory, thread)
    grant = make_grant(journal.new_grant_id())

    def fail(_file):
        raise OSError(errno.EIO, "the disk is ill")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StateError, match="the disk is ill"):
        await journal.write(grant)

    assert journal.grants() == ()
    assert f"{grant.grant_id}.json" not in files(directory)
    assert (await opened(directory, thread)).grants() == ()
    assert files(directory) == []


async def test_containers_that_start_side_by_side_have_files_prepared_once(directory, thread):
    journal = await opened(directory, thread)
    journal.prepared_most = 4

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(journal.prepare())

    assert len(files(directory)) == 4


async def test_a_disk_that_is_ill_is_not_filled_with_files_for_grants_to_come(
    directory, thread, monkeypatch
):
    journal = await opened(directory, thread)
    journal.prepared_most = 4

    def fail(_file):
        raise OSError(errno.EIO, "the disk is ill")

    monkeypatch.setattr(os, "fsync", fail)
    for _ in range(3):
        await journal.prepare()

    assert files(directory) == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\0" * 100, id="a file that a power cut emptied"),
        pytest.param(orjson.dumps({**RECORD, "version": 2}), id="a version of the future"),
        pytest.param(encode_grant(make_grant("another")), id="a grant under another's name"),
    ],
)
async def test_a_file_that_cannot_be_read_is_set_aside_and_the_others_count(
    directory, thread, content, assert_logged
):
    journal = await opened(directory, thread)
    await journal.write(make_grant("g2", pod_name="pod-2"))
    (directory / "g1.json").write_bytes(content)

    journal = await opened(directory, thread)

    assert [grant.grant_id for grant in journal.grants()] == ["g2"]
    assert files(directory) == ["g1.unreadable", "g2.json"]
    assert_logged("grant unreadable", log_level="error")


async def test_a_directory_in_a_files_place_is_set_aside_too(directory, thread):
    await opened(directory, thread)
    (directory / "g1.json").mkdir()

    assert (await opened(directory, thread)).grants() == ()
    assert files(directory) == ["g1.unreadable"]


async def test_a_removed_grant_is_gone_from_memory_and_disk(directory, thread):
    journal = await opened(directory, thread)
    await journal.write(make_grant())

    for _ in range(2):
        await journal.remove("g1")

    assert journal.grants() == ()
    assert journal.served() == frozenset()
    assert files(directory) == []


async def test_a_disk_that_takes_nothing_is_named_and_nothing_counts_as_granted(directory, thread):
    journal = await opened(directory, thread)
    directory.rmdir()

    with pytest.raises(StateError, match=r"pod default/pod-1 cannot be written to .*/journal"):
        await journal.write(make_grant("g1", make_share()))

    assert journal.grants() == ()


async def test_a_place_that_is_no_directory_is_named(directory, thread):
    directory.touch()

    with pytest.raises(
        StateError, match=r"journal of grants in .*/journal cannot be opened"
    ) as caught:
        await opened(directory, thread)

    assert caught.value.hint == f"move away what is in the way at {directory}"


async def test_an_old_file_that_stays_keeps_no_new_grant_from_counting(
    directory, thread, assert_logged
):
    journal = await opened(directory, thread)
    await journal.write(make_grant("g1"))
    (directory / "g1.json").unlink()
    (directory / "g1.json").mkdir()  # which no unlink removes

    await journal.write(make_grant("g2"))

    assert [grant.grant_id for grant in journal.grants()] == ["g2"]
    assert_logged("old grant stays on disk", grant_id="g1")


async def test_a_file_that_stays_is_an_error_of_the_disk(directory, thread):
    journal = await opened(directory, thread)
    (directory / "g1.json").mkdir()

    with pytest.raises(StateError, match="g1 cannot be removed"):
        await journal.remove("g1")


async def test_nobody_else_may_read_the_journal(directory, thread):
    await opened(directory, thread)

    assert directory.stat().st_mode & 0o777 == 0o700
