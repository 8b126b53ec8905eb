import asyncio
import ctypes
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from hamid.aiokit.services import running
from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from hamid.hooks.abi.usage import USAGE_PAGE_BYTES, UsageReport
from hamid.hooks.monitor import read_usage
from hamid.plugin.trimmer import UsageTrimmer, trim

KEEP_SIZE = 1
MIB = 1 << 20


@pytest.fixture
def page(tmp_path):
    """The empty usage page of a grant."""
    path = tmp_path / USAGE_PAGE_NAME
    path.touch()
    return path


@contextmanager
def writable(path):
    page = os.open(path, os.O_WRONLY)
    yield page
    os.close(page)


def trimmed(path):
    with writable(path) as page:
        return trim(page)


def reserve(path, size_bytes):
    """Take blocks of the disk without making the file longer."""
    libc = ctypes.CDLL(None, use_errno=True)
    with writable(path) as page:
        if libc.fallocate(page, KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size_bytes)) != 0:
            pytest.skip(f"no such reservations here: {os.strerror(ctypes.get_errno())}")


def on_disk_bytes(path):
    return path.stat().st_blocks * 512


@pytest.mark.parametrize("size_bytes", [0, 1, USAGE_PAGE_BYTES])
def test_a_page_of_its_own_size_or_less_is_left_alone(page, size_bytes):
    page.write_bytes(b"x" * size_bytes)

    assert trimmed(page) == 0
    assert page.read_bytes() == b"x" * size_bytes


def test_what_is_behind_the_end_of_a_page_is_cut_off_and_the_page_stays(page):
    page.write_bytes(b"x" * USAGE_PAGE_BYTES + b"y" * 8 * MIB)

    assert trimmed(page) >= USAGE_PAGE_BYTES + 8 * MIB
    assert page.read_bytes() == b"x" * USAGE_PAGE_BYTES


def test_a_hole_behind_the_end_is_cut_off_too(page):
    os.truncate(page, 1 << 40)

    assert trimmed(page) == 1 << 40
    assert page.stat().st_size == USAGE_PAGE_BYTES


@pytest.mark.parametrize("size_bytes", [0, USAGE_PAGE_BYTES])
def test_blocks_that_are_taken_without_making_the_page_longer_are_given_back(page, size_bytes):
    page.write_bytes(b"x" * size_bytes)
    reserve(page, 32 * MIB)
    assert on_disk_bytes(page) >= 32 * MIB

    assert trimmed(page) >= 32 * MIB
    assert on_disk_bytes(page) <= 2 * USAGE_PAGE_BYTES
    assert page.read_bytes() == b"x" * size_bytes


def test_an_empty_page_that_was_cut_is_still_one_that_nobody_joined(page, tmp_path):
    reserve(page, 32 * MIB)
    trimmed(page)

    assert read_usage(tmp_path) == UsageReport()


@pytest.fixture
def grants(tmp_path):
    """The usage directories of two grants."""
    directories = {name: tmp_path / name for name in ("g1", "g2")}
    for directory in directories.values():
        directory.mkdir()
        (directory / USAGE_PAGE_NAME).touch()
    return directories


@pytest.fixture
async def trimmer(grants):
    """Over these grants; what it has open it lets go of in the end."""
    trimmer = UsageTrimmer(directories=lambda: dict(grants))
    yield trimmer
    grants.clear()
    await trimmer.step()


def make_longer(grants, name):
    os.truncate(grants[name] / USAGE_PAGE_NAME, 8 * MIB)


async def test_of_each_container_it_is_said_once(grants, trimmer, logs):
    for _ in range(3):
        make_longer(grants, "g2")
        await trimmer.step()

    assert (grants["g2"] / USAGE_PAGE_NAME).stat().st_size == USAGE_PAGE_BYTES
    assert [(line["event"], line["grant_id"], line["bytes"]) for line in logs] == [
        ("usage page cut", "g2", 8 * MIB)
    ]


async def test_a_page_whose_rights_its_container_takes_away_is_cut_all_the_same(grants, trimmer):
    """Root in a container owns the page as we do, and we have no other power over it."""
    await trimmer.step()
    page = grants["g1"] / USAGE_PAGE_NAME
    with page.open("r+b") as held:  # as its container holds it
        page.chmod(0)
        held.truncate(8 * MIB)

    await trimmer.step()

    assert (grants["g1"] / USAGE_PAGE_NAME).stat().st_size == USAGE_PAGE_BYTES


def put_link(path):
    precious = path.parent / "precious"
    precious.write_bytes(b"x" * 2 * USAGE_PAGE_BYTES)
    path.symlink_to(precious)


@pytest.mark.parametrize("put", [put_link, os.mkfifo, os.mkdir])
async def test_what_a_container_of_an_earlier_release_put_there_is_not_opened_and_said(
    grants, trimmer, put, logs
):
    page = grants["g1"] / USAGE_PAGE_NAME
    page.unlink()
    put(page)

    for _ in range(2):
        await trimmer.step()  # and no reader is waited for

    assert [(line["event"], line["grant_id"]) for line in logs] == [
        ("usage page out of reach", "g1")
    ]
    if put is put_link:
        assert (grants["g1"] / "precious").stat().st_size == 2 * USAGE_PAGE_BYTES


def open_pages():
    """Of which directories this process has the pages open."""
    descriptors = list(Path("/proc/self/fd").iterdir())  # the last is this directory's own
    found = [descriptor.readlink() for descriptor in descriptors if descriptor.exists()]
    return sorted(path.parent.name for path in found if path.name == USAGE_PAGE_NAME)


async def test_pages_are_let_go_of_with_their_grants_and_at_the_end(grants, trimmer):
    await trimmer.step()
    assert open_pages() == ["g1", "g2"]
    del grants["g1"]
    await trimmer.step()
    assert open_pages() == ["g2"]

    async with running(trimmer):
        await asyncio.sleep(0)

    assert open_pages() == []


async def test_a_directory_that_is_gone_keeps_no_other_from_being_looked_at(grants, trimmer):
    (grants["g1"] / USAGE_PAGE_NAME).unlink()
    grants["g1"].rmdir()
    make_longer(grants, "g2")

    await trimmer.step()

    assert (grants["g2"] / USAGE_PAGE_NAME).stat().st_size == USAGE_PAGE_BYTES


async def test_it_looks_again_and_again(grants):
    looks, is_third = 0, asyncio.Event()

    def directories():
        nonlocal looks
        looks += 1
        if looks > 2:
            is_third.set()
        make_longer(grants, "g1")
        return grants

    trimmer = UsageTrimmer(directories=directories, interval_s=0.001)
    async with asyncio.timeout(10), running(trimmer):
        await is_third.wait()
