"""A daemon whose disk takes nothing, or is not what it should be: a process with mounts of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hamid.hooks.install import install_library
from hamid.nvml.profiles import format_profile, simulated_cards
from tests.nvml.machine import built

ROOT = Path(__file__).parents[2]
MOUNT = {
    "read-only": "mount --bind {disk} {disk} && mount -o remount,ro,bind {disk}",
    "full": "mount -t tmpfs -o size=4k none {disk}",
}
WORDS = {"read-only": "Read-only file system", "full": "No space left on device"}

pytestmark = pytest.mark.slow  # each starts a Python


@pytest.fixture
def around(tmp_path):
    (tmp_path / "devices").write_text(format_profile(simulated_cards([("T4", 1)], node_name="n")))
    (tmp_path / "libhamid.so").write_bytes(b"\x7fELF" + bytes(10_000))
    for name in ("disk", "kubelet"):
        (tmp_path / name).mkdir()
    return tmp_path


def daemon_log(around, *, mount="true"):
    """What the daemon says, and its exit code; it ends by itself."""
    config = around / "config.yaml"
    own = {"state_dir": around / "disk/state", "cdi_dir": around / "cdi"}
    own |= {"device_plugin_dir": around / "kubelet", "pod_resources_dir": around / "kubelet"}
    document = {
        "kube": {"server": "http://127.0.0.1:1"},
        "roles": {"plugin": "always", "scheduler": "never"},
        "nvml": {"library": str(built("libnvidia-ml.so.1")), "host_root": str(around)},
        "hooks": {"library": str(around / "libhamid.so")},
        "plugin": {name: str(path) for name, path in own.items()},
        "addresses": {"status_port": 0},
        "log": {"format": "json"},
    }
    config.write_text(yaml.safe_dump(document))
    run = f"exec {sys.executable} -m hamid run --node-name n --config {config}"
    names = {"HAMID_SIM_DEVICES": f"{around}/devices", "HAMID_SIM_STATE": f"{around}/sim-state"}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f"{mount.format(disk=around / 'disk')}; {run}"],
        cwd=ROOT,
        env=os.environ | names,  # noqa: TID251 - the process gets what we have
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = [
        json.loads(line) for line in (done.stdout + done.stderr).splitlines() if line[:1] == "{"
    ]
    return done, lines


@pytest.fixture
def _can_mount():
    done = subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True)
    if done.returncode:
        pytest.skip("mounts of one's own take root")


@pytest.mark.usefixtures("_can_mount")
@pytest.mark.parametrize("how", ["read-only", "full"])
def test_a_disk_that_takes_no_library_is_named(around, how):
    done, lines = daemon_log(around, mount=MOUNT[how])

    (failed,) = [line for line in lines if line["event"] == "daemon failed"]
    assert done.returncode == 1
    assert "cannot install the library into" in failed["error"]
    assert f"{around}/disk/state/lib" in failed["error"]
    assert WORDS[how] in failed["error"]
    assert "writable" in failed["hint"]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.usefixtures("_can_mount")
@pytest.mark.parametrize("has_prepared", [True, False])
async def test_a_journal_that_takes_no_grants_is_named_before_cards_are_offered(
    around, has_prepared
):
    """After an upgrade, or before it: the library is there, and the disk was mounted read-only."""
    state = around / "disk/state"
    await install_library(around / "libhamid.so", host_dir=state)
    (state / "journal").mkdir()
    if has_prepared:
        (state / "journal/0badcafe.json").touch()

    done, lines = daemon_log(around, mount=MOUNT["read-only"])

    (failed,) = [line for line in lines if line["event"] == "daemon failed"]
    assert done.returncode == 1
    assert f"the journal of grants in {state}/journal" in failed["error"]
    assert WORDS["read-only"] in failed["error"]
    assert failed["hint"] == "free or mend that disk of the node"
    assert "Traceback" not in done.stdout + done.stderr
