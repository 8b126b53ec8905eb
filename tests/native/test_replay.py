"""What is asked of cuGetProcAddress, name by name: what runtimes really ask, and all that they could.

The runtimes' own lists come from NVIDIA's libraries, which are run on the simulated driver for that. They then
find that it is not NVIDIA's, and give up; by then they have asked for all names.
"""

import re
import subprocess
import sys

import pytest

from tests.native.container import NATIVE, TIMEOUT_S
from tests.native.headers import VERSIONS

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
        input="".join(
            f"{form} {name} {version} {flags}\n" for form, name, version, flags in requests
        ),
        env=env,
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return [line.split() for line in done.stdout.splitlines()]


def wrong_answers(container, requests):
    """Where a hooked form is not answered with its hook, or any other not as the driver does."""
    bare = answers(container, requests, is_hooked=False)
    hooked = answers(container, requests, is_hooked=True)
    wrong = []
    for request, driver_s, ours in zip(requests, bare, hooked, strict=True):
        _, symbol, *status = driver_s
        whose = "hook" if symbol in HOOKED else driver_s[0]
        if ours != [whose, symbol, *status]:
            wrong.append((request, driver_s, ours))
    return wrong


def runtime_s_requests(container, runtime):
    """What a runtime asks when it first needs a device."""
    asked = container.limits_dir.parent / "asked"
    call = f"import ctypes; ctypes.CDLL({str(runtime)!r}).cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))"
    subprocess.run(
        [sys.executable, "-S", "-c", call],
        env={**container.env, "HAMID_SIM_CUDA_ASKED": str(asked)},
        check=False,  # 13.x dies of what it finds, at the end of the process
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    lines = (line.split() for line in asked.read_text().splitlines())
    return [(int(form), name, int(version), int(flags)) for form, name, version, flags in lines]


def test_hooked_forms_are_answered_with_their_hook_and_all_others_as_the_driver_does(container):
    requests = [
        (form, name, version, flags)
        for form in (1, 2)
        for name, version, *_ in FORMS
        for flags in (0, THREAD)
    ]
    assert len(requests) > 2000

    assert wrong_answers(container, requests) == []


@pytest.fixture(params=VERSIONS)
def runtime(request, cuda_versions):
    return cuda_versions[request.param] / "libcudart.so"


def test_what_a_runtime_asks_is_answered_as_the_driver_does_but_for_what_is_hooked(
    container, runtime
):
    requests = runtime_s_requests(container, runtime)

    names = {name for _, name, *_ in requests}
    assert len(requests) > 350
    assert {"cuMemAlloc", "cuMemAllocAsync", "cuLaunchKernel", "cuGetProcAddress"} <= names
    assert sum(flags == THREAD for *_, flags in requests) > 50
    assert wrong_answers(container, requests) == []


def test_what_a_runtime_gets_for_per_thread_streams_is_of_that_kind(container, runtime):
    kinds = {(name, symbol): per_thread for name, _, symbol, per_thread in FORMS}
    requests = runtime_s_requests(container, runtime)
    per_thread = [request for request in requests if request[3] == THREAD]

    found = answers(container, per_thread, is_hooked=True)

    for (_, name, *_), (whose, symbol, *_) in zip(per_thread, found, strict=True):
        of_thread = {kind for (known, _), kind in kinds.items() if known == name}
        assert whose == "nothing" or symbol in of_thread, (name, symbol)


def test_each_hook_is_reached_by_the_request_that_hooks_def_names(container):
    rows = re.findall(
        r"^HOOK\(CUDA, \w+, (\w+), \w+, (\w+), (\d+), (\w+),",
        (NATIVE / "src/hooks.def").read_text(),
        re.MULTILINE,
    )
    requests = [
        (2, name, int(version), THREAD if stream == "THREAD" else 0)
        for _, name, version, stream in rows
    ]

    found = answers(container, requests, is_hooked=True)

    assert [(whose, symbol) for whose, symbol, *_ in found] == [("hook", row[0]) for row in rows]
