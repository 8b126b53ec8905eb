"""The library built by clang, without a warning: it passes the unit tests, and does what gcc's does."""

import json
import shutil

import pytest

from tests.native.container import CARD, NATIVE, Container, build
from tests.native.test_exports import HOOKED, asked_versions, defined_symbols

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def clang_build():
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    build("check-clang", timeout_s=500)
    return NATIVE / "build/clang"


def test_clang_exports_the_same_symbols_and_asks_for_no_newer_glibc(clang_build):
    library = clang_build / "libhamid.so"

    assert defined_symbols(library) == sorted([*HOOKED, "dlmopen", "dlopen", "dlsym"])
    assert max(asked_versions(library)) <= (2, 17)


def test_under_clang_s_library_the_limit_holds(clang_build, tmp_path):
    with Container(clang_build, tmp_path) as container:
        container.limit((CARD, 3000))

        answers = container.alloc("--via", "procaddress", 3000, 1)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]


@pytest.mark.parametrize("route", ["alloc", "pool", "array"])
def test_under_clang_s_library_what_is_charged_is_what_the_driver_gave(
    clang_build, tmp_path, route
):
    with Container(clang_build, tmp_path) as container:
        container.limit((CARD, 1024))
        (line,) = map(json.loads, container.run("route", "fill", route, 32).stdout.splitlines())

    assert line["charged"] == line["physical"] == 1024 << 20
    assert line["left"] == 0
