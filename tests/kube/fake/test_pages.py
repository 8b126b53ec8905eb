from __future__ import annotations

import pytest

from hamid.kube.errors import Gone
from hamid.kube.fake import pages
from hamid.kube.fake.pages import OpenLists
from hamid.kube.fake.values import Page


def page_of(count: int) -> Page:
    return Page(items=[{"number": number} for number in range(count)], version=7)


def test_a_list_comes_in_pages_of_one_version() -> None:
    lists, sizes = OpenLists(), []
    page = lists.cut(page_of(5), 2)
    while page.continue_token:
        sizes.append(len(page.items))
        page = lists.cut(lists.rest_of(page.continue_token), 2)

    assert [*sizes, len(page.items)] == [2, 2, 1]
    assert page.version == 7


def test_no_limit_is_one_page() -> None:
    assert OpenLists().cut(page_of(5), 0) == page_of(5)


def test_old_lists_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "OPEN_MAX", 1)
    lists = OpenLists()
    first, second = lists.cut(page_of(2), 1), lists.cut(page_of(2), 1)

    assert lists.rest_of(second.continue_token).items == [{"number": 1}]
    with pytest.raises(Gone):
        lists.rest_of(first.continue_token)
