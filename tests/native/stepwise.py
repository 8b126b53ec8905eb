"""Programs of a tenant, written in Python: after each call of note, its result and what is charged."""

import json
import subprocess
import sys
from pathlib import Path

from hamid.hooks.abi.contract import USAGE_PAGE_NAME
from hamid.hooks.abi.usage import decode_usage_page
from tests.native.container import CARD, MIB, OTHER_CARD, TIMEOUT_S, Container

ROOT = Path(__file__).parents[2]
PRELUDE = """
from ctypes import *
from tests.native.stepwise import *
cuda, context, stream = CDLL("libcuda.so.1"), c_void_p(), c_void_p()
steps = Steps(Path(sys.argv[1]))
assert cuda.cuInit(0) == 0
"""
IN_A_CONTEXT = """
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuStreamCreate(byref(stream), 0) == 0
"""


class Steps:
    """What such a program says: at its end, one JSON line."""

    def __init__(self, usage_dir: Path) -> None:
        self._usage_page = usage_dir / USAGE_PAGE_NAME
        self._said: dict[str, list[int]] = {}

    def say(self, what: str, result: int) -> None:
        """Note a call's result, and what this container is charged on each card, in MiB."""
        page = self._usage_page
        usage = decode_usage_page(page.read_bytes()) if page.is_file() else None
        charged = [usage.used_bytes(card) // MIB if usage else 0 for card in (CARD, OTHER_CARD)]
        self._said[what] = [result, *charged]

    def end(self) -> None:
        """Print what was said."""
        sys.stdout.write(json.dumps(self._said) + "\n")


def said(
    container: Container, program: str, *, with_context: bool = True
) -> dict[str, tuple[int, int, int]]:
    """Run such a program; by step, its result and the MiB charged on either card."""
    before = PRELUDE + IN_A_CONTEXT if with_context else PRELUDE
    done = subprocess.run(
        [sys.executable, "-c", before + program + "\nsteps.end()\n", str(container.usage_dir)],
        env=container.environment(),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return {step: tuple(figures) for step, figures in json.loads(done.stdout).items()}
