"""Where a limit cannot be known, there is no memory and one line that says what to do."""

import os
import shutil

import pytest

from hamid.hooks.abi.contract import CONTROL_PAGE_NAME, USAGE_PAGE_NAME
from tests.native.container import CARD, CARD_MIB, limits

pytestmark = pytest.mark.native

NOT_PERMITTED = "CUDA_ERROR_NOT_PERMITTED"
NVML_NO_PERMISSION = 4

GOOD = limits((CARD, 3000))
FLIPPED = bytes([*GOOD[:180], GOOD[180] ^ 1, *GOOD[181:]])


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"", id="an empty page"),
        pytest.param(GOOD[:-1], id="a page cut short"),
        pytest.param(GOOD + b"\0", id="a page with more behind it"),
        pytest.param(FLIPPED, id="a page with a flipped bit"),
        pytest.param(bytes(len(GOOD)), id="zeroes"),
        pytest.param(GOOD[:8] + b"\x02" + GOOD[9:], id="a page of another version"),
        pytest.param(None, id="no page"),
    ],
)
def test_without_a_page_to_trust_there_is_no_memory(container, page):
    if page is not None:
        container.write_page(page)

    done = container.run("alloc_mib", 1, 1)

    assert done.stdout.count(NOT_PERMITTED) == 4  # twice the memory, twice the figures
    assert f'"nvmlDeviceGetMemoryInfo", "result": {NVML_NO_PERMISSION}' in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert str(container.limits_dir / CONTROL_PAGE_NAME) in done.stderr
    assert "delete the pod" in done.stderr


def test_a_page_that_becomes_unreadable_takes_no_memory_away(container):
    container.limit((CARD, 100))
    tenant = container.start(60)

    container.write_page(b"nonsense")
    assert tenant.alloc(1) == NOT_PERMITTED
    assert tenant.tell("free").results("cuMemFree") == ["CUDA_SUCCESS"]

    container.limit((CARD, 100))
    assert tenant.alloc(100) == "CUDA_SUCCESS"


def test_memory_that_cannot_be_counted_is_not_given(container):
    container.limit((CARD, 100))
    os.mkfifo(container.usage_dir / USAGE_PAGE_NAME)

    done = container.run("alloc_mib", 1, 1)

    assert done.stdout.count(NOT_PERMITTED) == 4  # twice the memory, twice the figures
    assert len(done.stderr.splitlines()) == 1
    assert str(container.usage_dir / USAGE_PAGE_NAME) in done.stderr


def test_outside_a_container_of_ours_nothing_is_limited(container):
    shutil.rmtree(container.limits_dir)

    answers = container.alloc(CARD_MIB, 1)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]
    assert answers.only("cuMemGetInfo")["total_mib"] == CARD_MIB


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"CUDA_DEVICE_MEMORY_LIMIT_0": "40g"}, id="HAMi's limit"),
        pytest.param({"CUDA_DEVICE_MEMORY_LIMIT": "0"}, id="HAMi's limit, off"),
        pytest.param({"CUDA_DISABLE_CONTROL": "true"}, id="HAMi's switch"),
        pytest.param({"CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/other"}, id="HAMi's region"),
        pytest.param({"HAMID_LIMITS_DIR": "/nonexistent"}, id="a name like ours"),
        pytest.param({"HAMID_LOG": "off"}, id="silence"),
    ],
)
def test_no_environment_raises_the_limit(container, env):
    container.limit((CARD, 100))

    answers = container.alloc(100, 1, env=env)

    assert answers.results("cuMemAlloc") == ["CUDA_SUCCESS", "CUDA_ERROR_OUT_OF_MEMORY"]
