"""The simulated driver: builds its library once, and changes its cards through the file."""

import fcntl
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from hamid.nvml.port import EventKind
from hamid.nvml.profiles import SimulatedCard, format_profile

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
EVENT_NAMES = {EventKind.XID: "xid", EventKind.DOUBLE_BIT_ECC: "double_bit_ecc"}


@cache
def built(name: str) -> Path:
    """Build one of the simulation's files if need be; several test runs at once take turns."""
    if sys.platform != "linux":
        pytest.skip(f"the simulated driver is built for Linux, not for {sys.platform}")
    build = ROOT / "native/build"
    build.mkdir(parents=True, exist_ok=True)
    with (build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(
            ["make", "-s", "-C", str(ROOT / "native"), f"build/sim/{name}"],
            check=True,
            timeout=110,
        )
    return build / "sim" / name


class SimMachine:
    """Cards in a profile file. Later lines win over earlier ones, so changes are appended."""

    def __init__(self, path: Path, cards: tuple[SimulatedCard, ...], *, extra=None):
        self.path = path
        self.cards = {card.device.device_uuid: card for card in cards}
        self.extra = {card.device.device_uuid: card for card in extra or ()}
        self.lines = defaultdict(list)
        self.driver_lines = []
        self.sequence = 0
        self.write()

    def write(self):
        head, *blocks = format_profile(tuple(self.cards.values())).rstrip().split("\n\n")
        texts = ["\n".join([head, *self.driver_lines])]
        for uuid, block in zip(self.cards, blocks, strict=True):
            texts.append("\n".join([block, *self.lines[uuid]]))
        fresh = self.path.with_suffix(".new")
        fresh.write_text("\n\n".join(texts) + "\n")
        fresh.rename(self.path)

    def add(self, device_uuid, *lines):
        self.lines[device_uuid] += lines
        self.write()

    def remove(self, device_uuid, line):
        self.lines[device_uuid].remove(line)
        self.write()

    def unplug(self, device_uuid):
        del self.cards[device_uuid]
        self.write()

    # What the contract asks for.

    def use(self, device_uuid, *, used_mib=0, gpu_percent=0, memory_percent=0):
        self.add(
            device_uuid,
            f"used_mib={used_mib}",
            f"gpu_util={gpu_percent}",
            f"mem_util={memory_percent}",
        )

    def run_process(self, device_uuid, *, pid, used_mib):
        self.add(device_uuid, f"process={pid}:{used_mib}")

    def lose(self, device_uuid):
        self.add(device_uuid, "fail=lost")

    def fail(self, device_uuid):
        self.add(device_uuid, "fail=unknown")

    def mend(self, device_uuid):
        self.lines[device_uuid] = [
            line for line in self.lines[device_uuid] if not line.startswith("fail=")
        ]
        self.write()

    def hide_load(self, device_uuid):
        self.add(device_uuid, "fail=not_supported_utilisation")

    def raise_event(self, event):
        self.sequence += 1
        line = f"event={EVENT_NAMES[event.kind]}:{event.data}:{self.sequence}"
        instances = self.cards[event.device_uuid].device.mig_instances
        for instance in instances:
            if instance.device_uuid == event.instance_uuid:
                line += f":{instance.gpu_instance_id}:{instance.compute_instance_id}"
        self.add(event.device_uuid, line)

    def plug(self, device):
        self.cards[device.device_uuid] = self.extra[device.device_uuid]
        self.write()

    def break_driver(self):
        self.driver_lines = ["fail=driver_not_loaded"]
        self.write()

    def mend_driver(self):
        self.driver_lines = []
        self.write()
