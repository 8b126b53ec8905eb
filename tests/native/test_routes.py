"""Whichever way a program takes device memory, it gets its limit, not more, and gets it again."""

import json
import subprocess

import pytest

from tests.native.container import CARD, MIB, OTHER_CARD, TIMEOUT_S

pytestmark = pytest.mark.native

LIMIT_MIB = 512
UNIT_MIB = 32
OUT_OF_MEMORY = 2
INVALID_VALUE = 1
INVALID_DEVICE = 101
ROUTES = [
    "alloc",
    "managed",
    "pitch",
    "async",
    "async freed at once",
    "pool",
    "handle",
    "mapping",
    "array",
    "array3d",
    "mipmap",
    "graph",
    "own pool",
    "external",
    "graph node",
    "graph uploaded",
    "narrow pitch",
    "async of thread",
    "multicast",
    "alloc v1",
    "narrow pitch v1",
    "heap",
    "green context",
]
UNCOUNTED_BY_THE_DRIVER = ["managed", "external"]
"""Not by the simulated one: managed memory is on the host first, external is its maker's."""


@pytest.fixture
def tenant(container):
    """Runs `route` in a container of 512 MiB; a context costs nothing on this machine."""
    machine = container.machine.read_text()
    container.machine.write_text(machine.replace("name=", "context_mib=0\nname="))
    container.limit((CARD, LIMIT_MIB))

    def run(*arguments, env=None):
        done = container.run("route", *arguments, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.mark.parametrize("route", ROUTES)
def test_each_route_is_granted_the_limit_refused_beyond_and_granted_again(tenant, route):
    (line,) = tenant("fill", route, UNIT_MIB)

    assert line["granted"] == LIMIT_MIB * MIB
    assert line["result"] == OUT_OF_MEMORY
    assert line["charged"] == LIMIT_MIB * MIB
    assert line["free_result"] == 0
    assert line["left"] == 0
    assert line["regained"] == line["count"]


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route not in UNCOUNTED_BY_THE_DRIVER]
)
def test_what_is_charged_is_what_the_driver_gave(tenant, route):
    (line,) = tenant("fill", route, UNIT_MIB)

    assert line["charged"] == line["physical"]


# field-reports.md (d) 17
@pytest.mark.parametrize("act", ["handles", "no-context"])
def test_of_memory_with_handles_only_device_memory_is_charged_once_and_to_its_last_mapping(
    tenant, act
):
    """Also before there is any context."""
    lines = {line["case"]: line for line in tenant(act)}

    charged = {case: line["charged"] for case, line in lines.items()}
    held = [
        "on device 0",
        "mapped",
        "exported",
        "imported",
        "import released",
        "retained",
        "released",
        "unmapped",
    ]
    assert charged == {case: 64 * MIB if case in held else 0 for case in lines}
    assert all(line["charged"] == line["physical"] for line in lines.values())
    results = {case: line["result"] for case, line in lines.items() if line["result"]}
    assert results == {
        "on a place that is none": INVALID_VALUE,
        "on device -1": INVALID_DEVICE,
        "on device 99": INVALID_DEVICE,
        "without properties": INVALID_VALUE,
        "released once more": INVALID_VALUE,
    }


# field-reports.md (d) 18
@pytest.mark.parametrize("route", ["async", "pool", "graph", "mapping"])
def test_use_returns_to_its_base_after_many_cycles(tenant, route):
    (line,) = tenant("cycles", route, 5000)

    assert line["left"] == 0
    assert line["highest"] <= UNIT_MIB * MIB


@pytest.mark.slow
@pytest.mark.parametrize("route", ["async", "pool"])
def test_use_returns_to_its_base_after_a_million_cycles(tenant, route):
    (line,) = tenant("cycles", route, 1_000_000)

    assert line["left"] == 0
    assert line["highest"] <= UNIT_MIB * MIB


# field-reports.md (d) 18
def test_frees_that_are_odd_get_the_driver_s_answer_and_leave_the_books_right(tenant):
    lines = tenant("odd")

    assert all(line["charged"] == line["physical"] for line in lines)
    results = {line["case"]: line["result"] for line in lines}
    assert results["null"] == results["null, in order of a stream"] == 0
    assert results["foreign"] == results["foreign, in order of a stream"] == INVALID_VALUE
    assert results["pooled freed plainly"] == 0
    assert results["pooled freed twice"] == INVALID_VALUE
    assert lines[-1]["charged"] == 0


def test_what_a_context_frees_is_released_with_it(tenant):
    charged = {line["case"]: line["charged"] for line in tenant("odd")}

    assert charged["in a context"] == 2 * UNIT_MIB * MIB
    assert charged["context destroyed"] == 0
    assert charged["in the primary context"] == UNIT_MIB * MIB
    assert charged["primary context reset"] == 0


def test_a_call_that_fails_after_one_that_did_not_leaves_no_charge(tenant):
    (line,) = tenant("fill", "async", UNIT_MIB, env={"HAMID_SIM_CUDA_FAIL": "cuMemFreeAsync=700"})

    assert line["free_result"] == 700
    assert line["left"] == line["charged"] == LIMIT_MIB * MIB


LAYERED, CUBEMAP = 0x01, 0x04
BYTE, HALF, FLOAT, BC1, BC7, NV12, P016, SNORM16X4 = 0x01, 0x10, 0x20, 0x91, 0x9D, 0xB0, 0xA1, 0xCB
SHAPES = {
    "bytes in a row": (5_000_000, 0, 0, BYTE, 1, 0, 0),
    "two halves": (1000, 700, 0, HALF, 2, 0, 0),
    "four floats in a cube": (100, 60, 50, FLOAT, 4, 0, 0),
    "one wide": (1, 5000, 300, BYTE, 1, 0, 0),
    "one high": (100_000, 1, 40, FLOAT, 1, 0, 0),
    "layers": (300, 200, 9, FLOAT, 1, LAYERED, 0),
    "layers of rows": (70_000, 0, 30, BYTE, 2, LAYERED, 0),
    "a cubemap": (256, 256, 6, BYTE, 4, CUBEMAP, 0),
    "layers of cubemaps": (256, 256, 18, HALF, 4, CUBEMAP | LAYERED, 0),
    "a level": (1000, 1000, 0, FLOAT, 1, 0, 1),
    "some levels": (1000, 1000, 0, FLOAT, 1, 0, 4),
    "all levels": (1024, 512, 0, FLOAT, 4, 0, 11),
    "more levels than there are": (1024, 512, 0, FLOAT, 4, 0, 25),
    "levels of a cube": (128, 128, 128, HALF, 1, 0, 8),
    "levels of layers": (512, 512, 12, BYTE, 4, LAYERED, 10),
    "levels of a cubemap": (512, 512, 6, BYTE, 4, CUBEMAP, 10),
    "BC1": (2048, 1024, 0, BC1, 4, 0, 0),
    "BC7 with levels": (2048, 2048, 0, BC7, 4, 0, 6),
    "NV12": (1920, 1080, 0, NV12, 3, 0, 0),
    "P016": (1920, 1080, 0, P016, 3, 0, 0),
    "four normalised shorts": (640, 480, 0, SNORM16X4, 4, 0, 0),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_array_of_any_shape_is_charged_what_the_driver_says_that_it_takes(tenant, shape):
    (line,) = tenant("array", *shape)

    assert line["result"] == 0
    assert line["charged"] == line["required"] > 0
    assert line["left"] == 0


@pytest.fixture
def model(container, tenant):
    """Runs `model` on two cards of 512 and 256 MiB, as many at once as there are seeds."""
    container.limit((CARD, LIMIT_MIB), (OTHER_CARD, LIMIT_MIB // 2))

    def run(seeds, steps, *words):
        runs = [
            subprocess.Popen(
                [str(container.build / "bin/model"), str(seed), str(steps), *words],
                env=container.environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            for seed in seeds
        ]
        outputs = [run.communicate(timeout=TIMEOUT_S)[0] for run in runs]
        assert [run.returncode for run in runs] == [0] * len(runs), outputs
        return [json.loads(output) for output in outputs]

    return run


@pytest.mark.parametrize("words", [(), ("odd",)], ids=["grains", "any size"])
@pytest.mark.parametrize("seed", range(4))
def test_after_every_random_legal_call_the_charge_is_the_driver_s_own_figure(model, seed, words):
    (line,) = model([seed], 5000, *words)

    assert line["left"] == 0
    assert line["refused"] > 0
    assert line["failed"] > 0


def test_of_processes_that_make_random_calls_each_is_charged_its_own(container, model):
    lines = model([11, 12, 13], 3000, "beside")

    assert all(line["left"] == 0 and line["refused"] > 0 for line in lines)
    assert container.usage().used_bytes(CARD) == container.usage().used_bytes(OTHER_CARD) == 0


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("odd",)], ids=["grains", "any size"])
@pytest.mark.parametrize("seed", range(100, 102))
def test_after_every_of_many_random_legal_calls_too(model, seed, words):
    (line,) = model([seed], 20_000, *words)

    assert line["left"] == 0
