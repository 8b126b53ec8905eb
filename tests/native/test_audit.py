"""Every function of the driver API is known for what it is, and hooks have the vendor's prototypes."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.native.container import NATIVE
from tests.native.headers import VERSIONS, audit

pytestmark = pytest.mark.native

KINDS, EXCUSED, FAULTS = audit.classed(NATIVE)
ROWS = audit.hooks(NATIVE)


def test_the_classes_are_well_formed_and_each_symbol_has_one():
    assert FAULTS == []


def test_every_hook_is_classed_as_hooks_def_has_it():
    assert {row.symbol: row.kind for row in ROWS} == {row.symbol: KINDS[row.symbol] for row in ROWS}


def test_whatever_takes_or_frees_memory_or_starts_work_is_hooked_or_excused():
    hooked = {row.symbol for row in ROWS}

    open_ones = [
        symbol
        for symbol, kind in KINDS.items()
        if kind in audit.MUST_BE_HOOKED and symbol not in hooked | EXCUSED
    ]

    assert open_ones == []
    assert hooked.isdisjoint(EXCUSED)


def test_a_hook_with_another_prototype_than_the_vendor_s_is_found(cuda_versions):
    (row,) = (row for row in ROWS if row.symbol == "cuMemAlloc_v2")
    wrong = audit.Hook(
        symbol=row.symbol,
        kind=row.kind,
        name=row.name,
        version=row.version,
        is_per_thread=False,
        parameters="CUdeviceptr *address, unsigned int size_bytes",
    )

    newest = VERSIONS[-1]
    *_, faults = audit.check_version(NATIVE, newest, cuda_versions[newest], [wrong])

    assert faults == [f"{newest}: the prototype of cuMemAlloc_v2 is not the vendor's"]


def audited(native):
    done = subprocess.run(
        [sys.executable, str(NATIVE / "tools/audit.py"), str(native)],
        check=False,
        capture_output=True,
        text=True,
        timeout=110,
    )
    *faults, summary = done.stdout.splitlines() or [done.stderr]
    assert summary.endswith(f", {len(faults)} faults"), summary
    assert done.returncode == (1 if faults else 0)
    return faults


@pytest.mark.slow
def test_the_audit_finds_nothing(cuda_versions):
    assert cuda_versions.keys() == set(VERSIONS)
    assert audited(NATIVE) == []


@pytest.mark.slow
def test_the_audit_fails_on_what_nobody_classed_on_a_wrong_prototype_and_on_work_that_is_let_by(
    cuda_versions, tmp_path
):
    for part in ("audit", "src"):
        shutil.copytree(NATIVE / part, tmp_path / part)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/cuda").symlink_to(NATIVE / "build/cuda")
    classes, hooks = tmp_path / "audit/classes.txt", tmp_path / "src/hooks.def"
    classes.write_text(re.sub(r"\bcuMemcpyPeer\b", "", classes.read_text(), count=1))
    rows = hooks.read_text().splitlines(keepends=True)
    rows = [row for row in rows if not row.startswith("HOOK(CUDA, CUresult, cuGraphLaunch,")]
    right, wrong = (
        f"cuMemFree, 3020, LEGACY, ({kind} address)" for kind in ("CUdeviceptr", "CUdeviceptr_v1")
    )
    hooks.write_text("".join(rows).replace(right, wrong))

    faults = audited(tmp_path)

    assert faults == [
        f"{version}: {what}"
        for version in VERSIONS
        for what in (
            "the prototype of cuMemFree_v2 is not the vendor's",
            "cuMemcpyPeer is not classed",
        )
    ] + ["cuGraphLaunch is launch, but neither hooked nor excused in classes.txt"]
