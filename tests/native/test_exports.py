"""One list: what hooks.def names is defined, exported and generated, and nothing else is."""

import re
import runpy
import subprocess

import pytest

from tests.native.container import NATIVE

pytestmark = pytest.mark.native

DEFINITIONS = (NATIVE / "src/hooks.def").read_text()
HOOKED = re.findall(r"^HOOK\(\w+, \w+, (\w+),", DEFINITIONS, re.MULTILINE)


def defined_symbols(library):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    return sorted(line.split()[-1] for line in listing.splitlines())


def asked_versions(library):
    listing = subprocess.run(
        ["objdump", "-T", str(library)], check=True, capture_output=True, text=True
    ).stdout
    assert "GLIBC_PRIVATE" not in listing
    return {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", listing)}


def test_rows_are_sorted_and_each_symbol_has_one():
    assert sorted(set(HOOKED)) == HOOKED
    assert len(HOOKED) == DEFINITIONS.count("\nHOOK(")


def test_every_hook_of_the_driver_is_known_by_name_and_version_too():
    rows = re.findall(
        r"^HOOK\(CUDA, CUresult, (\w+), [A-Z]+, (\w+), (\d+), (LEGACY|THREAD), \(",
        DEFINITIONS,
        re.MULTILINE,
    )

    assert [symbol for symbol, *_ in rows] == [s for s in HOOKED if s.startswith("cu")]
    assert len({row[1:] for row in rows}) == len(rows)
    for symbol, name, version, stream in rows:
        assert re.fullmatch(rf"{name}(_v\d)?(_ptsz|_ptds)?", symbol)
        assert symbol.endswith(("_ptsz", "_ptds")) == (stream == "THREAD")
        assert int(version) >= 2000


def test_every_row_has_one_definition_in_one_file():
    sources = "\n".join(path.read_text() for path in sorted((NATIVE / "src").glob("*.c")))
    defined = re.findall(r"^(?:HOOK_EXPORT \w+ |[A-Z]+_HOOK\()(\w+)[(,]", sources, re.MULTILINE)

    assert sorted(defined) == HOOKED


@pytest.mark.parametrize("library", ["libhamid.so", "test/libhamid.so"])
def test_the_library_exports_the_hooked_symbols_and_the_loader_s_three_only(native_build, library):
    assert defined_symbols(native_build / library) == sorted(
        [*HOOKED, "dlmopen", "dlopen", "dlsym"]
    )


def test_the_committed_version_script_is_what_the_generator_makes():
    generator = runpy.run_path(str(NATIVE / "tools/gen_exports.py"))

    script = generator["version_script"](generator["hooked_symbols"](DEFINITIONS))

    assert script == (NATIVE / "generated/hamid-hook.map").read_text()


def test_the_library_for_containers_knows_no_paths_from_the_environment(native_build):
    assert b"HAMID_TEST_" not in (native_build / "libhamid.so").read_bytes()
    assert b"HAMID_TEST_" in (native_build / "test/libhamid.so").read_bytes()


def test_the_library_needs_the_c_library_only(native_build):
    headers = subprocess.run(
        ["objdump", "-p", str(native_build / "libhamid.so")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    needed = re.findall(r"NEEDED\s+(\S+)", headers)

    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_the_library_asks_for_nothing_newer_than_glibc_2_17(native_build):
    asked = asked_versions(native_build / "libhamid.so")

    assert asked
    assert max(asked) <= (2, 17)
