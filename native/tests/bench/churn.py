"""Workers that take and give back without a pause while others of them are killed: how long they wait.

A call that has not come back counts as long as it has lasted, whenever one is killed and at the end.
One of them is never killed, so it waits for as long as it has to.
"""

import mmap
import random
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

PROCESSES = 16
PERIOD_S = 0.02
FOR_EVER = 1_000_000_000
BEGUN, DONE, FAILED = 128, 256, 511
"""Where a worker notes when its call began (0: none is under way), and how many were done; see worker.c."""


class Churn:
    """Starts workers, kills some, and keeps what they waited at worst."""

    def __init__(self, worker: Path, env: Mapping[str, str], record: Path) -> None:
        record.write_bytes(bytes(4096))
        with record.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
        self._record = record
        self._worker = worker
        self._env = env
        self._worst_ns = 0
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.late_s = 0.0
        """How much later than asked for the killer was woken at worst: what this machine is."""

    def start(self, index: int, rounds: int = FOR_EVER) -> subprocess.Popen[bytes]:
        """Start the worker of this number; one that had it is over."""
        self._numbers[BEGUN + index] = 0
        words = (self._worker, "churn", self._record, index, rounds)
        process = subprocess.Popen([str(word) for word in words], env=dict(self._env))
        self.workers[index] = process
        return process

    def kill(self, index: int) -> None:
        """End it wherever it is; what it was waiting for counts."""
        self.look()
        self.workers[index].kill()
        self.workers[index].wait()
        self._numbers[BEGUN + index] = 0

    def kill_and_start(self, times: int, seed: int) -> None:
        """Let all of them run, and replace one of them so often."""
        dice = random.Random(seed)
        for index in range(PROCESSES):
            self.start(index)
        for _ in range(times):
            from_s = time.monotonic()
            time.sleep(PERIOD_S)
            self.late_s = max(self.late_s, time.monotonic() - from_s - PERIOD_S)
            victim = dice.randrange(1, PROCESSES)
            self.kill(victim)
            self.start(victim)
        self.look()

    def all_go_on(self, within_s: float) -> bool:
        """Does each of them finish another call in that time? It may be long: who hangs, hangs."""
        until_s = time.monotonic() + within_s
        before = {index: self._numbers[DONE + index] for index in self.workers}
        while any(self._numbers[DONE + index] == done for index, done in before.items()):
            if time.monotonic() > until_s:
                return False
            time.sleep(PERIOD_S)
        return True

    def look(self) -> None:
        """Count the calls that are under way."""
        for index in self.workers:
            begun_ns = self._numbers[BEGUN + index]
            if begun_ns:
                self._worst_ns = max(self._worst_ns, time.monotonic_ns() - begun_ns)

    def end(self) -> None:
        """Kill all that are left."""
        self.look()
        for process in self.workers.values():
            process.kill()
            process.wait()
        self.workers.clear()

    def waited_ns(self, index: int) -> int:
        """The longest call of a worker that came back."""
        return self._numbers[index]

    @property
    def worst_ns(self) -> int:
        """The longest call of all, whether it came back or not."""
        return max(self._worst_ns, *self._numbers[:PROCESSES])

    @property
    def failed(self) -> int:
        """How many calls failed that had room."""
        return self._numbers[FAILED]
