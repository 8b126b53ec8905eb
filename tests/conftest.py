"""What every test gets: no task may outlive its test, logs are values, GPU tests need a GPU."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import structlog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

pytest.register_assert_rewrite("tests.contracts")  # so that their asserts explain themselves

# Generated tests draw the same examples everywhere, and do not mind a slow machine.
hypothesis.settings.register_profile(
    "hamid", derandomize=True, deadline=None, database=None, max_examples=50
)
hypothesis.settings.load_profile("hamid")

# Thousands of collected tests are no garbage: looking at all of them as often as Python does by
# itself is a fifth of the time.
gc.set_threshold(20_000, 20, 50)

# Where HAMID_REQUIRE_ALL is set, as in CI, a test that is left out fails: a tool that went missing
# would else go unnoticed. Only these reasons count, for no package mends them.
MUST_RUN = bool(os.environ.get("HAMID_REQUIRE_ALL"))  # noqa: TID251 - whoever runs the tests says so
MAY_BE_LEFT_OUT = ("only with HAMID_LONG=1", "no GPU here", "clients of CUDA 10.2 need Python 3.10")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn what was left out for want of something into a failure, where all must run."""
    report = yield
    if MUST_RUN and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not any(words in reason for words in MAY_BE_LEFT_OUT):
            report.outcome = "failed"
            report.longrepr = f"this has to run here: {reason}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests, with the reason, where no GPU answers."""
    needing = [item for item in items if item.get_closest_marker("gpu") is not None]
    why = _no_gpu() if needing else None
    for item in needing if why else ():
        item.add_marker(pytest.mark.skip(reason=f"no GPU here: {why}"))


def _no_gpu() -> str | None:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return "nvidia-smi is not installed (make test-gpu)"
    try:
        done = subprocess.run([smi, "-L"], check=False, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "nvidia-smi -L does not answer"
    if done.returncode == 0 and "GPU " in done.stdout:
        return None
    return f"nvidia-smi -L says {(done.stdout + done.stderr).strip() or 'nothing'!r}"


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    """The log entries of the test, in order: dicts with `event`, `log_level` and the fields."""
    structlog.reset_defaults()  # another test may have set up logging for itself
    with structlog.testing.capture_logs() as entries:
        yield entries


@pytest.fixture
def assert_logged(logs: list[Any]) -> Callable[..., None]:
    """A check that an event was logged, with at least the given fields."""

    def check(event: str, **fields: object) -> None:
        wanted = {"event": event, **fields}
        found = [entry for entry in logs if wanted.items() <= entry.items()]
        assert found, f"no log entry has {wanted}; logged were {logs}"

    return check


@pytest.fixture(autouse=True)
def _no_task_is_left_behind(request: pytest.FixtureRequest) -> None:
    """Fail an async test that ends while a task it started still runs."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("_leaked_task_check")


@pytest.fixture
async def _leaked_task_check() -> AsyncIterator[None]:
    before = asyncio.all_tasks()

    yield

    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    for _ in range(3):  # a task that is just being cancelled needs a turn of the loop to end
        if all(task.done() for task in left):
            return
        await asyncio.sleep(0)
    names = sorted(task.get_name() for task in left if not task.done())
    for task in left:
        task.cancel()
    if names:
        pytest.fail(f"tasks outlived the test: {', '.join(names)}")
