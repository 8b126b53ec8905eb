"""Every function of the driver API is known for what it is, and hooks have the vendor's prototypes."""

import subprocess
import sys

import pytest

from tests.native.container import NATIVE

sys.path.insert(0, str(NATIVE / "tools"))
import audit

pytestmark = pytest.mark.native

KINDS, EXCUSED, FAULTS = audit.classed(NATIVE)
ROWS = audit.hooks(NATIVE)
HEADERS = sorted((NATIVE / "build/cuda").glob("*/cudaTypedefs.h"))
needs_headers = pytest.mark.skipif(not HEADERS, reason="make -C native audit fetches the headers")


def test_the_classes_are_well_formed_and_each_symbol_has_one():
    assert FAULTS == []


def test_every_hook_is_classed_as_hooks_def_has_it():
    assert {row.symbol: row.kind for row in ROWS} == {row.symbol: KINDS[row.symbol] for row in ROWS}


def test_whatever_takes_or_frees_memory_is_hooked_or_excused():
    hooked = {row.symbol for row in ROWS}

    open_ones = [
        symbol
        for symbol, kind in KINDS.items()
        if kind in audit.MUST_BE_HOOKED and symbol not in hooked | EXCUSED
    ]

    assert open_ones == []
    assert hooked.isdisjoint(EXCUSED)


@needs_headers
def test_a_hook_with_another_prototype_than_the_vendor_s_is_found():
    (row,) = (row for row in ROWS if row.symbol == "cuMemAlloc_v2")
    wrong = audit.Hook(
        symbol=row.symbol,
        kind=row.kind,
        name=row.name,
        version=row.version,
        is_per_thread=False,
        parameters="CUdeviceptr *address, unsigned int size_bytes",
    )

    *_, faults = audit.check_version(NATIVE, HEADERS[-1].parent.name, HEADERS[-1].parent, [wrong])

    assert faults == [
        f"{HEADERS[-1].parent.name}: the prototype of cuMemAlloc_v2 is not the vendor's"
    ]


@needs_headers
@pytest.mark.slow
def test_the_audit_finds_nothing():
    done = subprocess.run(
        [sys.executable, str(NATIVE / "tools/audit.py"), str(NATIVE)],
        check=False,
        capture_output=True,
        text=True,
        timeout=110,
    )

    assert done.returncode == 0, done.stdout + done.stderr
