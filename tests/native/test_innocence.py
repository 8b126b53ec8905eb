"""Programs that have nothing to do with GPUs, looked at from outside while they run, as before.

Descriptors, signals, umask, environment, threads, mapped files, output, exit code, and what files are
left: with the library, in a container with limits, everything is as without, but for the library itself.
What such a program sees of itself is in test_guest_manners.py; the time to start, in bench-start.
"""

import contextlib
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.native.container import CARD, TIMEOUT_S

pytestmark = [pytest.mark.native, pytest.mark.slow]

OPENMP = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    long sum = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum) schedule(static)
    for (long i = 0; i < 1000000; i++)
        sum += i ^ omp_get_thread_num();
    printf("%ld\nready\n", sum);
    fflush(stdout);
    return getchar() == 'x' ? 7 : 8;
}
"""
BASH = r"""
trap 'echo on exit' EXIT
trap '' USR1
umask 027
shopt -s extglob
list=$(printf '%s\n' {1..9} | sort -r | tr -d '\n')
echo "$list $BASH_SUBSHELL"
echo ready
read -r line
(exit 5) || echo "$? $line"
exit 6
"""
PYTHON = r"""
import ctypes, hashlib, os, signal, sys, threading
signal.signal(signal.SIGUSR1, lambda *_: None)
ctypes.CDLL(None, use_errno=True).close(-1)
print(hashlib.sha256(b"x").hexdigest(), threading.active_count(), sorted(sys.flags))
os.umask(0o027)
print("ready", flush=True)
print(sys.stdin.read())
sys.exit(9)
"""


def bash(directory):
    return ["bash", "-c", BASH]


def python(directory):
    return [sys.executable, "-X", "faulthandler", "-c", PYTHON]


def openmp(directory):
    (directory / "sum.c").write_text(OPENMP)
    command = ["cc", "-fopenmp", "-o", "sum", "sum.c"]
    if subprocess.run(command, cwd=directory, check=False, capture_output=True).returncode != 0:
        pytest.skip("no compiler with OpenMP here (gcc)")
    return ["./sum"]


def jvm(directory):
    """Any JVM's keytool, which waits for a password."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed (Debian: default-jre-headless)")
    flags = ["-XX:-UsePerfData", "-XX:+UseSerialGC", "-Xshare:auto"]
    keytool = ["-m", "java.base/sun.security.tools.keytool.Main", "-genkeypair"]
    return ["java", *flags, *keytool, "-keystore", "keys", "-alias", "key", "-dname", "CN=x"]


# A JVM starts and ends threads as it likes, and they open files side by side: which gets which
# number is chance.
BY_ITSELF = {jvm: {"Threads", "numbers"}}
READ = {"x86_64": 0, "aarch64": 63}  # the system call
STATUS = ["SigBlk", "SigIgn", "SigCgt", "Umask", "Threads", "Groups", "NoNewPrivs", "Seccomp"]


def wait_for_reading(process):
    """Until a thread of it waits for input: what it said by then, it may have said on its way."""
    reading = f"{READ[platform.machine()]} 0x0 "
    until = time.monotonic() + TIMEOUT_S
    while not any(call.startswith(reading) for call in calls_waited_in(process.pid)):
        assert process.poll() is None
        assert time.monotonic() < until


def calls_waited_in(pid):
    """Of each thread that waits, the system call's number and its arguments."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            yield (task / "syscall").read_text()


def look_at(pid, *, leave_out):
    """What the kernel says of a process, once it says so twice: threads on their way open files and close them."""
    last, until = None, time.monotonic() + TIMEOUT_S
    while True:
        seen = None
        with contextlib.suppress(FileNotFoundError):  # closed while it was looked at
            seen = look_once(pid, leave_out=leave_out)
        if seen is not None and seen == last:
            return seen
        assert time.monotonic() < until
        last = seen


def look_once(pid, *, leave_out):
    proc = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    targets = {fd.name: str(fd.readlink()) for fd in (proc / "fd").iterdir()}
    if "numbers" in leave_out:
        targets = dict(enumerate(sorted(targets.values())))
    environment = (proc / "environ").read_bytes().split(b"\0")
    maps = re.findall(r" (/\S+)$", (proc / "maps").read_text(), re.MULTILINE)
    return {
        "descriptors": {fd: re.sub(r"\d{3,}", "N", target) for fd, target in targets.items()},
        "status": {name: status[name] for name in STATUS if name not in leave_out},
        "environment": [word for word in environment if not word.startswith(b"LD_PRELOAD=")],
        "mapped": {path for path in maps if "libhamid" not in path},
    }, any("libhamid" in path for path in maps)


def run(program, directory, env):
    """Start it, look at it while it waits for input, and say what it did: all but times and numbers."""
    directory.mkdir()
    command = program(directory)
    before = {path.name for path in directory.rglob("*")}
    env = {**env, "HOME": str(directory), "LC_ALL": "C"}
    with subprocess.Popen(
        command,
        env=env,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        wait_for_reading(process)
        seen, is_guest = look_at(process.pid, leave_out=BY_ITSELF.get(program, set()))
        output, _ = process.communicate(b"x\n", timeout=TIMEOUT_S)
    left = {path.name for path in directory.rglob("*")} - before
    where = str(directory).encode()
    seen["environment"] = [word.replace(where, b".") for word in seen["environment"]]
    seen["mapped"] = {path.replace(str(directory), ".") for path in seen["mapped"]}
    return {
        **seen,
        "output": output.replace(where, b"."),
        "code": process.returncode,
        "left": left,
    }, is_guest


@pytest.mark.parametrize("page", ["limits", "nonsense"])
@pytest.mark.parametrize("library", ["libhamid.so", "test/libhamid.so"])
@pytest.mark.parametrize("program", [bash, python, jvm, openmp])
def test_a_program_without_a_gpu_runs_as_before(container, tmp_path, program, library, page):
    if page == "limits":
        container.limit((CARD, 100))
    else:
        container.write_page(b"nonsense")

    bare, _ = run(program, tmp_path / "bare", container.env)
    preload = {"LD_PRELOAD": str(container.build / library)}
    guest, is_guest = run(program, tmp_path / "guest", container.environment(preload))

    assert is_guest
    assert guest == bare
    assert list(container.usage_dir.iterdir()) == []


def test_no_code_runs_when_the_library_is_loaded(native_build):
    """Of the compiler's own there is one constructor, in every library."""
    dynamic = subprocess.run(
        ["readelf", "-d", str(native_build / "libhamid.so")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert re.findall(r"\(INIT_ARRAYSZ\)\s+(\d+)", dynamic) == ["8"]


def test_a_program_that_has_closed_all_its_descriptors_and_starts_others_does_not_notice(container):
    container.limit((CARD, 100))
    script = (
        "exec 0<&- 2>&-; ls -l /proc/self/fd | wc -l; for i in 1 2 3; do env true; done; echo $?"
    )

    def say(env):
        done = subprocess.run(
            ["bash", "-c", script], env=env, check=False, capture_output=True, timeout=TIMEOUT_S
        )
        return done.stdout, done.stderr, done.returncode

    assert say(container.environment()) == say(container.env)
