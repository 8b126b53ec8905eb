"""What the client programs share: fill a card by each route to its last byte, be refused, free, fill it again.

Runs in a client's own environment, so it needs nothing but Python. A route is how to take some bytes and hold what
they are in, how to free that, and the least that can be taken. Prints one JSON line per route. The program's argument
is where the usage page is; copies of it are left here, so that what was charged when can be read afterwards.
"""

import json
import sys
from pathlib import Path

MIB = 1 << 20
UNIT_BYTES = 512
CHUNK_BYTES = 32 * MIB
AT_MOST_BYTES = 96 * CHUNK_BYTES
"""More than any card or slice here: what has no end is not taken without end."""
LOOK_AT_BYTES = 4 * CHUNK_BYTES
PAGE_BYTES_KEPT = 64 << 10
"""Of a usage page: all that a few processes have of it."""


def say(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def keep_page(name):
    page = Path(sys.argv[1]) / "usage.page"
    if page.is_file():
        Path(f"{name}.page").write_bytes(page.read_bytes()[:PAGE_BYTES_KEPT])


class Fill:
    """Chunks until one is refused, then ever smaller ones."""

    def __init__(self, take, least_bytes, refusals):
        self.take, self.least_bytes, self.refusals = take, least_bytes, refusals
        self.held, self.granted_bytes, self.refusal = [], 0, None

    def run(self, look):
        size = CHUNK_BYTES
        while size >= self.least_bytes and self.granted_bytes < AT_MOST_BYTES:
            try:
                self.held.append(self.take(size))
            except self.refusals as error:
                self.refusal = self.refusal or f"{type(error).__name__}: {error}"
                size //= 2
            else:
                self.granted_bytes += size
                if self.granted_bytes == LOOK_AT_BYTES:
                    look()
        return self

    def free(self, give):
        while self.held:
            give(self.held.pop())


def try_routes(routes, refusals, figures=dict):
    """`figures` is what the client says of memory while it holds some."""
    keep_page("before")
    for name, (take, give, least_bytes) in routes.items():
        told = {}

        def look(name=name, told=told):
            told.update(figures())
            keep_page(f"{name} looked at")

        first = Fill(take, least_bytes, refusals).run(look)
        keep_page(f"{name} full")
        first.free(give)
        second = Fill(take, least_bytes, refusals)
        if first.refusal:
            second.run(dict).free(give)
        say(
            route=name,
            granted_bytes=first.granted_bytes,
            again_bytes=second.granted_bytes,
            least_bytes=least_bytes,
            refusal=first.refusal,
            told=told,
        )
