"""How the process ends: each test runs one of its own."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from hamid.daemon.lifecycle import FAILED, MISCONFIGURED, report
from hamid.errors import NvmlError, SettingsError

pytestmark = pytest.mark.slow  # each starts a Python

PRELUDE = """
import asyncio, sys, threading
from contextlib import asynccontextmanager
from hamid.aiokit.blocking import OneThread
from hamid.aiokit.services import running
from hamid.daemon import lifecycle
from hamid.daemon.logs import LogFormat, LogLevel, configure_logs
from hamid.errors import NvmlError, SettingsError

configure_logs(LogFormat.JSON, LogLevel.INFO)

class Service:
    name = "service"
    async def run(self):
        await asyncio.Event().wait()

@asynccontextmanager
async def daemon(settings):
    async with running(Service()):
        print("up", flush=True)
        try:
            yield
        finally:
            print("down", flush=True)

lifecycle.daemon = daemon
"""
MAIN = "\nlifecycle.leave(lifecycle.run(None))\n"


class Process:
    """A process whose daemon is what the code makes of it."""

    def __init__(self, code=""):
        self.popen = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code) + MAIN],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, line):
        """Wait until it says this."""
        for said in self.popen.stdout:
            if said.strip() == line:
                return
        raise AssertionError(self.popen.stderr.read())

    def send(self, number):
        self.popen.send_signal(number)

    def end(self):
        """Exit code, what was said, what was logged."""
        out, err = self.popen.communicate(timeout=20)
        return self.popen.returncode, out, err


@pytest.fixture
def start():
    started = []

    def start(code=""):
        started.append(Process(code))
        return started[-1]

    yield start
    for process in started:
        process.popen.kill()
        process.popen.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_a_good_end_with_all_farewells(start, number):
    process = start(
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
    )  # not as in nohup
    process.wait_for("up")

    process.send(number)

    code, out, err = process.end()
    assert code == 0
    assert "down" in out
    assert f'"signal": "{number.name}"' in err
    assert "Traceback" not in err


def test_as_many_files_may_be_open_as_the_system_allows(start):
    process = start(
        """
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

        class Service(Service):
            async def run(self):
                soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                print("all" if soft == hard else "few", flush=True)
                await super().run()
        """
    )

    process.wait_for("all")


def test_a_hangup_that_is_to_be_ignored_is(start):
    process = start("import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)")
    process.wait_for("up")

    process.send(signal.SIGHUP)
    process.send(signal.SIGTERM)

    assert '"signal": "SIGHUP"' not in process.end()[2]


def test_a_second_signal_ends_the_process_at_once(start):
    process = start(
        """
        class Service(Service):
            async def run(self):
                try:
                    await asyncio.Event().wait()
                finally:
                    print("leaving", flush=True)
                    await asyncio.Event().wait()
        """
    )
    process.wait_for("up")
    process.send(signal.SIGINT)
    process.wait_for("leaving")

    process.send(signal.SIGINT)

    assert process.end()[0] == -signal.SIGINT


def test_a_thread_that_is_stuck_in_the_driver_keeps_nothing_from_ending(start):
    process = start(
        """
        class Service(Service):
            async def run(self):
                thread = OneThread(name="nvml")
                asked = asyncio.get_running_loop().create_future()
                def stuck():
                    print("stuck", flush=True)
                    threading.Event().wait()
                try:
                    await thread.call(stuck)
                finally:
                    thread.close()
        """
    )
    process.wait_for("stuck")

    process.send(signal.SIGTERM)

    assert process.end()[0] == 0


def test_a_service_that_fails_ends_the_process_with_one_and_says_why(start):
    code, _, err = start(
        """
        class Service(Service):
            async def run(self):
                raise NvmlError("the driver is gone", hint="reboot the node")
        """
    ).end()

    assert code == 1
    assert '"error": "the driver is gone"' in err
    assert '"hint": "reboot the node"' in err
    assert "in service 'service'" in err


def test_a_fault_of_ours_ends_the_process_with_one_and_its_traceback(start):
    code, _, err = start(
        """
        class Service(Service):
            async def run(self):
                raise ZeroDivisionError("a bug")
        """
    ).end()

    assert code == 1
    assert "ZeroDivisionError: a bug" in err
    assert "Traceback" in err


def test_a_service_that_returns_is_a_fault(start):
    code, _, err = start(
        """
        class Service(Service):
            async def run(self):
                pass
        """
    ).end()

    assert code == 1
    assert "service 'service' returned" in err


def test_wrong_settings_end_the_process_with_two(start):
    code, _, err = start(
        """
        class Service(Service):
            async def run(self):
                raise SettingsError("the port is taken", hint="set another")
        """
    ).end()

    assert code == 2
    assert '"hint": "set another"' in err


def test_a_cancellation_that_no_signal_asked_for_is_no_good_end(start):
    code, _, err = start(
        """
        @asynccontextmanager
        async def daemon(settings):
            asyncio.current_task().cancel()
            yield
        lifecycle.daemon = daemon
        """
    ).end()

    assert code == 1
    assert "CancelledError" in err


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([SettingsError("a", hint="b")], MISCONFIGURED),
        ([SettingsError("a", hint="b"), SettingsError("c", hint="d")], MISCONFIGURED),
        ([SettingsError("a", hint="b"), NvmlError("c", hint="d")], FAILED),
        ([ValueError("a")], FAILED),
    ],
)
def test_all_causes_are_told_and_only_settings_alone_make_it_the_operators(errors, code, logs):
    assert report(ExceptionGroup("of services", [ExceptionGroup("inner", errors)])) == code
    assert len([entry for entry in logs if entry["event"] == "daemon failed"]) == len(errors)


def hamid_run(*arguments, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POD_", "NODE_", "KUBE"))}  # noqa: TID251 - the child's
    return subprocess.run(
        [sys.executable, "-m", "hamid", "run", *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_hamid_run_says_what_is_wrong_with_the_settings(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("plugin: {device_split_count: many}")

    done = hamid_run("--config", str(config), NODE_NAME="n")

    assert done.returncode == 2
    assert "plugin.device_split_count: found 'many', expected a whole number" in done.stderr


def test_hamid_run_needs_its_file(tmp_path):
    done = hamid_run("--config", str(tmp_path / "nothing.yaml"), NODE_NAME="n")

    assert done.returncode == 2
    assert "nothing.yaml" in done.stderr


def test_hamid_run_needs_an_api_server():
    done = hamid_run(NODE_NAME="n")

    assert done.returncode == 2
    assert "0 ways to the API server are set" in done.stderr
