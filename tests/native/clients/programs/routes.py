"""What the client programs share: fill a card by each route, be refused, free, be granted again.

Runs in a client's own environment, so it needs nothing but Python. Each route is a pair: take(bytes)
gives something to hold, give(held) frees it. Prints one JSON line per route.
"""

import json
import sys

MIB = 1 << 20
CHUNK_MIB = 32
CHUNKS_AT_MOST = 256


def say(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def try_routes(routes, refusals):
    for name, (take, give) in routes.items():
        held, refusal = [], None
        try:
            while len(held) < CHUNKS_AT_MOST:
                held.append(take(CHUNK_MIB * MIB))
        except refusals as error:
            refusal = f"{type(error).__name__}: {error}"
        granted = len(held)
        while held:
            give(held.pop())
        again = False
        if refusal is not None:
            give(take(CHUNK_MIB * MIB))
            again = True
        say(route=name, granted_mib=granted * CHUNK_MIB, refusal=refusal, again=again)
