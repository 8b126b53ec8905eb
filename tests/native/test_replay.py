"""Every name of the driver API, asked for in every version and for both kinds of streams.

These are the requests that the runtimes of CUDA 11.8 to 13.5 make, and all others that they could.
"""

import re
import subprocess

import pytest

from tests.native.container import NATIVE, TIMEOUT_S

pytestmark = pytest.mark.native

THREAD = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
HOOKED = set(
    re.findall(r"^HOOK\(CUDA, \w+, (\w+),", (NATIVE / "src/hooks.def").read_text(), re.MULTILINE)
)
ROW = re.compile(r"^SIM(?:_THREAD|_AGAIN)?\((\w+), (\d+), (\w+)(?:, (\w+))?\)", re.MULTILINE)
FORMS = [
    (name, int(version), symbol, per_thread or symbol)
    for path in sorted((NATIVE / "tests/stub/cuda").glob("*.def"))
    for name, version, symbol, per_thread in ROW.findall(path.read_text())
]


@pytest.fixture(autouse=True)
def newest_driver(container):
    container.machine.write_text("cuda_version=13050\n\n" + container.machine.read_text())


def answers(container, requests, *, is_hooked):
    env = container.environment()
    if not is_hooked:
        del env["LD_PRELOAD"]
    done = subprocess.run(
        [str(container.build / "bin/replay")],
        input="".join(f"{name} {version} {flags}\n" for name, version, flags in requests),
        env=env,
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return [line.split() for line in done.stdout.splitlines()]


def test_hooked_forms_are_answered_with_their_hook_and_all_others_as_the_driver_does(container):
    requests = [(name, version, flags) for name, version, *_ in FORMS for flags in (0, THREAD)]
    assert len(requests) > 1000

    bare = answers(container, requests, is_hooked=False)
    hooked = answers(container, requests, is_hooked=True)

    wrong = []
    for request, driver_s, ours in zip(requests, bare, hooked, strict=True):
        _, symbol, *status = driver_s
        whose = "hook" if symbol in HOOKED else driver_s[0]
        if ours != [whose, symbol, *status]:
            wrong.append((request, driver_s, ours))
    assert wrong == []


def test_each_hook_is_reached_by_the_request_that_hooks_def_names(container):
    rows = re.findall(
        r"^HOOK\(CUDA, \w+, (\w+), \w+, (\w+), (\d+), (\w+),",
        (NATIVE / "src/hooks.def").read_text(),
        re.MULTILINE,
    )
    requests = [
        (name, int(version), THREAD if stream == "THREAD" else 0)
        for _, name, version, stream in rows
    ]

    found = answers(container, requests, is_hooked=True)

    assert [(whose, symbol) for whose, symbol, *_ in found] == [("hook", row[0]) for row in rows]
