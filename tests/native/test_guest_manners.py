"""A process that has nothing to do with GPUs does not notice the library; look-ups stay right."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.native.container import CARD, TIMEOUT_S

pytestmark = pytest.mark.native


@pytest.mark.parametrize("library", ["libhamid.so", "test/libhamid.so"])
def test_a_program_finds_itself_as_it_was(container, library):
    container.limit((CARD, 100))

    bare = container.run("innocent", env={"LD_PRELOAD": ""})
    guest = container.run("innocent", env={"LD_PRELOAD": str(container.build / library)})

    assert (guest.returncode, guest.stderr) == (0, "")
    assert guest.stdout == bare.stdout
    assert list(container.usage_dir.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "echo hello; exit 3"],
        ["env"],
        [sys.executable, "-S", "-c", "import ctypes; print(ctypes.CDLL(None).getpid() > 0)"],
    ],
    ids=["a shell", "env", "python with ctypes"],
)
def test_everyday_programs_say_what_they_said_before(container, command):
    container.write_page(b"nonsense")

    def run(env):
        done = subprocess.run(command, env=env, check=False, capture_output=True, timeout=TIMEOUT_S)
        return done.returncode, done.stdout, done.stderr

    bare = run(container.env)
    code, output, errors = run(container.environment())
    without_preload = [line for line in output.splitlines() if not line.startswith(b"LD_PRELOAD=")]

    assert (code, without_preload, errors) == (bare[0], bare[1].splitlines(), bare[2])


def test_a_static_program_runs_undisturbed(container):
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")

    done = subprocess.run(
        [busybox, "echo", "hello"],
        env=container.environment(),
        check=False,
        capture_output=True,
        timeout=TIMEOUT_S,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")


@pytest.fixture
def looked_up(container):
    """Run `lookups` and give, by way of looking, who was found."""

    def run(*arguments, env=None):
        lines = container.run("lookups", *arguments, env=env).stdout.splitlines()
        return dict(line.rsplit(": ", 1) for line in lines)

    return run


def test_every_way_to_look_finds_the_hook(looked_up):
    found = looked_up("global")

    hooked = {way: who for way, who in found.items() if "not hooked" not in way and "@" not in way}
    assert hooked.pop("handle, unknown") == "nothing"
    assert set(hooked.values()) == {"hook"}
    assert found["handle, not hooked"] == "driver"
    assert found["next of a later library, not hooked"] == "driver"


def test_look_up_by_version_differs_from_the_drivers_only_in_what_is_hooked(looked_up):
    bare = looked_up(env={"LD_PRELOAD": ""})
    found = looked_up()

    by_version = {way for way in bare if "@" in way}
    assert by_version == {way for way in found if "@" in way}
    for way in by_version:
        is_hooked = bare[way] == "driver" and not way.startswith("cuInit")
        assert found[way] == ("hook" if is_hooked else bare[way]), way


def test_the_umask_and_the_owner_of_the_usage_page_do_not_lock_others_out(container):
    container.limit((CARD, 100))
    before = os.umask(0o077)
    try:
        container.alloc(1)
    finally:
        os.umask(before)

    (page,) = container.usage_dir.iterdir()

    assert page.stat().st_mode & 0o777 == 0o666
