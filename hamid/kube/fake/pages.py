"""Lists in pages: what is still to come of each, as of its first page."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from hamid.kube.errors import Gone
from hamid.kube.fake.values import Page

OPEN_MAX: Final = 100


@dataclass(slots=True)
class OpenLists:
    """The rests of lists by token; each is asked for once, and the oldest are forgotten."""

    _rests: OrderedDict[str, Page] = field(default_factory=OrderedDict)
    _count: int = 0

    def cut(self, page: Page, limit: int) -> Page:
        """The first `limit` objects, with a token for the others; 0 is no limit."""
        if not limit or len(page.items) <= limit:
            return page
        self._count += 1
        token = f"page-{self._count}"
        self._rests[token] = Page(items=page.items[limit:], version=page.version)
        while len(self._rests) > OPEN_MAX:
            self._rests.popitem(last=False)
        return Page(items=page.items[:limit], version=page.version, continue_token=token)

    def rest_of(self, token: str) -> Page:
        """What the token stands for."""
        rest = self._rests.pop(token, None)
        if rest is None:
            raise Gone("The provided continue parameter is too old")
        return rest
