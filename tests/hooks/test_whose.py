import os

from hamid.hooks.whose import KEPT_NS, MappedPages, page_key

MAPS = """\
7f0000000000-7f0000001000 r--p 00000000 fd:01 11 /usr/lib/libc.so.6
7f0000002000-7f0000114000 rw-s 00000000 fd:02 4711 /usr/local/hamid/usage/usage.page
7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0 [stack]
"""


PAGE = (0xFD, 2, 4711)


def process(proc, pid: int, maps: str = MAPS) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "maps").write_text(maps)


def test_a_process_is_known_by_the_page_that_it_has_mapped(tmp_path):
    process(tmp_path, 7)

    assert MappedPages(proc=tmp_path).of(7, among=[PAGE], now_ns=0) == PAGE


def test_pages_that_a_process_made_itself_do_not_hide_its_container_s(tmp_path):
    own = "7e0000000000-7e0000001000 rw-s 00000000 fd:03 99 /tmp/usage.page\n"
    process(tmp_path, 7, own + MAPS)
    process(tmp_path, 8, own)
    pages = MappedPages(proc=tmp_path)

    assert pages.of(7, among={PAGE}, now_ns=0) == PAGE
    assert pages.of(8, among={PAGE}, now_ns=0) is None


def test_a_process_without_a_page_or_that_is_gone_belongs_to_nobody(tmp_path):
    process(tmp_path, 7, "7f0000000000-7f0000001000 r--p 00000000 fd:01 11 /usr/lib/libc.so.6\n")
    pages = MappedPages(proc=tmp_path)

    assert pages.of(7, among=[PAGE], now_ns=0) is None
    assert pages.of(8, among=[PAGE], now_ns=0) is None


def test_what_was_found_is_remembered_for_a_while(tmp_path):
    process(tmp_path, 7)
    pages = MappedPages(proc=tmp_path)
    pages.of(7, among=[PAGE], now_ns=0)
    process(tmp_path, 7, "")

    assert pages.of(7, among=[PAGE], now_ns=KEPT_NS) == PAGE
    assert pages.of(7, among=[PAGE], now_ns=KEPT_NS + 1) is None


def test_a_page_on_disk_has_the_key_that_maps_show(tmp_path):
    page = tmp_path / "usage.page"
    page.touch()
    found = page.stat()

    assert page_key(found) == (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
