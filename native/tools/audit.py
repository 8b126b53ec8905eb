"""Check hooks.def against the vendor's own headers of several CUDA versions.

Fails on a declared `cu*` function that audit/classes.txt does not class, on one that takes or frees
memory or starts work and is neither hooked nor excused, on a hook whose parameters are not those of
the vendor's typedef, and on a type of cuda_subset.h that is laid out differently.

Usage: audit.py NATIVE_DIR    (make audit). Downloads the headers once,
with the runtimes for tests/native/test_replay.py, into build/.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

CLASSES = frozenset({"alloc", "free", "launch", "context", "query", "capture", "plain"})
MUST_BE_HOOKED = frozenset({"alloc", "free", "launch"})
NEEDED = ("cuda.h", "cudaTypedefs.h", "libcudart.so")
INTERNAL = "-D__CUDA_API_VERSION_INTERNAL"  # the oldest forms, too
MODES = ("", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM", INTERNAL)
DECLARATION = re.compile(r"^\s*(?:extern )?CUresult\s+(cu[A-Z]\w*)\s*\(", re.MULTILINE)
TYPEDEF = re.compile(r"\(CUDAAPI \*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)")
ROW = re.compile(
    r"^HOOK\(CUDA, CUresult, (\w+), ([A-Z]+), (\w+), (\d+), (LEGACY|THREAD), \((.*)\)\)$",
    re.MULTILINE,
)
LAYOUTS = {
    "CUmemLocation": "type id",
    "CUmemAllocationProp": "type requestedHandleTypes location allocFlags",
    "CUmemPoolProps": "allocType handleTypes location",
    "CUipcMemHandle": "reserved",
    "CUmemPoolPtrExportData": "reserved",
    "CUDA_ARRAY_DESCRIPTOR_v1": "Width Height Format NumChannels",
    "CUDA_ARRAY_DESCRIPTOR_v2": "Width Height Format NumChannels",
    "CUDA_ARRAY3D_DESCRIPTOR_v1": "Width Height Depth Format NumChannels Flags",
    "CUDA_ARRAY3D_DESCRIPTOR_v2": "Width Height Depth Format NumChannels Flags",
    "CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1": "type handle size flags",
    "CUDA_MEM_ALLOC_NODE_PARAMS": "poolProps bytesize dptr",
    "CUDA_MEMCPY2D_v2": "srcMemoryType srcDevice dstMemoryType dstDevice WidthInBytes Height",
    "CUDA_MEMCPY3D_v2": "srcMemoryType srcDevice dstMemoryType dstDevice WidthInBytes Height Depth",
    "CUarrayMapInfo": "resource memOperationType memHandleType memHandle offset",
    "CUgraphNodeParams": "type alloc free graph",
    "CUDA_GRAPH_INSTANTIATE_PARAMS": "flags hUploadStream hErrNode_out result_out",
}
VALUES = (
    "CU_STREAM_CAPTURE_STATUS_NONE",
    "CU_MEMORYTYPE_HOST",
    "CU_MEMORYTYPE_DEVICE",
    "CU_MEMORYTYPE_ARRAY",
    "CU_POINTER_ATTRIBUTE_MEMORY_TYPE",
    "CU_POINTER_ATTRIBUTE_BUFFER_ID",
    "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL",
    "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT",
    "CU_MEMPOOL_ATTR_USED_MEM_CURRENT",
    "CU_MEMPOOL_ATTR_ALLOCATION_TYPE",
    "CU_MEMPOOL_ATTR_LOCATION_ID",
    "CU_MEMPOOL_ATTR_LOCATION_TYPE",
    "CU_MEM_ALLOCATION_TYPE_MANAGED",
    "CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT",
    "CU_GRAPH_NODE_TYPE_GRAPH",
    "CU_GRAPH_NODE_TYPE_MEM_ALLOC",
    "CU_GRAPH_NODE_TYPE_MEM_FREE",
    "CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT",
    "CUDA_GRAPH_INSTANTIATE_ERROR",
    "CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD",
    "CU_MEM_LOCATION_TYPE_DEVICE",
    "CU_MEM_LOCATION_TYPE_HOST",
    "CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT",
    "CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN",
    "CU_MEM_ATTACH_GLOBAL",
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
    "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR",
    "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS",
    "CU_LIMIT_STACK_SIZE",
    "CU_LIMIT_PRINTF_FIFO_SIZE",
    "CU_LIMIT_MALLOC_HEAP_SIZE",
    "CU_MEM_HANDLE_TYPE_GENERIC",
    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
    "CU_MEM_HANDLE_TYPE_FABRIC",
    "CU_MEM_OPERATION_TYPE_MAP",
    "CUDA_ARRAY3D_LAYERED",
    "CUDA_ARRAY3D_CUBEMAP",
    "CUDA_ARRAY3D_SPARSE",
    "CUDA_ARRAY3D_DEFERRED_MAPPING",
    "CUDA_SUCCESS",
    "CUDA_ERROR_INVALID_VALUE",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDA_ERROR_NOT_INITIALIZED",
    "CUDA_ERROR_INVALID_CONTEXT",
    "CUDA_ERROR_NOT_FOUND",
    "CUDA_ERROR_NOT_PERMITTED",
    "CUDA_ERROR_NOT_SUPPORTED",
)
SINCE = {
    "CUgraphNodeParams": (12, 2),
    "CUDA_GRAPH_INSTANTIATE_PARAMS": (12, 0),
    "CUDA_GRAPH_INSTANTIATE_ERROR": (12, 0),
    "CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD": (12, 0),
    "CU_MEM_HANDLE_TYPE_FABRIC": (12, 3),
    "CU_MEM_LOCATION_TYPE_HOST": (12, 9),
    "CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT": (12, 9),
    "CU_MEM_ALLOCATION_TYPE_MANAGED": (13, 0),
    "CU_MEMPOOL_ATTR_ALLOCATION_TYPE": (13, 5),
    "CU_MEMPOOL_ATTR_LOCATION_ID": (13, 5),
    "CU_MEMPOOL_ATTR_LOCATION_TYPE": (13, 5),
    "CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN": (13, 5),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One row of hooks.def."""

    symbol: str
    kind: str
    name: str
    version: int
    is_per_thread: bool
    parameters: str


def attempt(*command: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that may fail."""
    words = [shutil.which(str(command[0])) or str(command[0]), *map(str, command[1:])]
    return subprocess.run(  # noqa: S603 - the compiler and pip, with our own words
        words, input=stdin, check=False, capture_output=True, text=True
    )


def run(*command: object, stdin: str | None = None) -> str:
    """Return what a command prints; its own message when it fails."""
    done = attempt(*command, stdin=stdin)
    if done.returncode:
        sys.exit(done.stderr or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def fetch(native: Path) -> dict[str, Path]:
    """Return the directory of each version's headers; download what is not there yet."""
    found: dict[str, Path] = {}
    for line in (native / "audit/headers.lock").read_text().splitlines():
        if line.startswith("#"):
            continue
        version, package, digest = line.split()
        found[version] = directory = native / "build/cuda" / version
        if all((directory / name).exists() for name in NEEDED):
            continue
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "lock").write_text(f"{package} --hash=sha256:{digest}\n")
        platforms = ("manylinux1", "manylinux2014", "manylinux_2_17")
        wanted = [word for p in platforms for word in ("--platform", f"{p}_x86_64")]
        command = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes")
        run(*command, "--only-binary=:all:", *wanted, "-d", directory, "-r", directory / "lock")
        for wheel in directory.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for entry in archive.namelist():
                    name = re.sub(r"(/libcudart\.so)\.[0-9.]+$", r"\1", entry)
                    if name.endswith(tuple(f"/{needed}" for needed in NEEDED)):
                        (directory / Path(name).name).write_bytes(archive.read(entry))
            wheel.unlink()
    return found


def declared(headers: Path) -> set[str]:
    """Return every function that a version's cuda.h declares, in all its modes."""
    texts = (run("cc", "-E", *mode.split(), headers / "cuda.h") for mode in MODES)
    return {name for text in texts for name in DECLARATION.findall(text)}


def classed(native: Path) -> tuple[dict[str, str], set[str], list[str]]:
    """Return symbol → class, which of them are excused from being hooked, and what is wrong."""
    kinds: dict[str, str] = {}
    excused: set[str] = set()
    faults: list[str] = []
    for number, line in enumerate((native / "audit/classes.txt").read_text().splitlines(), 1):
        text, _, excuse = line.partition("#")
        words = text.split()
        if not words:
            continue
        kind, symbols = words[0].rstrip(":"), words[1:]
        if kind not in CLASSES:
            faults.append(f"classes.txt:{number}: {kind} is no class")
        for symbol in symbols:
            if symbol in kinds:
                faults.append(f"classes.txt:{number}: {symbol} is classed twice")
            kinds[symbol] = kind
            if excuse.strip():
                excused.add(symbol)
    return kinds, excused, faults


def hooks(native: Path) -> list[Hook]:
    """Return the rows of hooks.def that are of the CUDA driver."""
    rows = ROW.findall((native / "src/hooks.def").read_text())
    return [
        Hook(
            symbol=symbol,
            kind=kind.lower(),
            name=name,
            version=int(version),
            is_per_thread=stream == "THREAD",
            parameters=parameters,
        )
        for symbol, kind, name, version, stream, parameters in rows
    ]


def prototype_source(rows: list[Hook], headers: Path) -> tuple[str, set[str]]:
    """Return C that compiles only where hooks and typedefs agree, and the hooks it checks."""
    typedefs = set(TYPEDEF.findall((headers / "cudaTypedefs.h").read_text()))
    lines = ["#include <cuda.h>", "#include <cudaTypedefs.h>"]
    checked: set[str] = set()
    for row in rows:
        variants = ("_ptsz", "_ptds") if row.is_per_thread else ("",)
        for variant in variants:
            if (row.name, str(row.version), variant) not in typedefs:
                continue
            checked.add(row.symbol)
            lines.append(f"typedef CUresult (CUDAAPI *hook_{row.symbol})({row.parameters});")
            lines.append(
                f"_Static_assert(__builtin_types_compatible_p(hook_{row.symbol}, "
                f'PFN_{row.name}_v{row.version}{variant}), "{row.symbol}");'
            )
    return "\n".join([*lines, ""]), checked


def layout_source(include: str, version: tuple[int, ...]) -> str:
    """Return a program that prints the layouts and values that we rely on."""
    prints = [
        f'printf("{kind}: %zu{" %zu" * len(fields.split())}\\n", sizeof({kind})'
        + "".join(f", offsetof({kind}, {field})" for field in fields.split())
        + ");"
        for kind, fields in LAYOUTS.items()
        if version >= SINCE.get(kind, (0,))
    ]
    prints += [
        f'printf("{name}: %d\\n", (int){name});'
        for name in VALUES
        if version >= SINCE.get(name, (0,))
    ]
    body = "\n".join(prints)
    includes = "".join(f"#include <{name}>\n" for name in ("stddef.h", "stdio.h", *include.split()))
    return f"{includes}int main(void)\n{{\n{body}\n}}\n"


def printed(source: str, directory: Path, build: Path) -> list[str]:
    """Compile and run a program."""
    program = build / "print_layout"
    run("cc", "-std=gnu17", INTERNAL, "-xc", "-", "-I", directory, "-o", program, stdin=source)
    return run(program).splitlines()


def check_version(
    native: Path, version: str, headers: Path, rows: list[Hook]
) -> tuple[set[str], set[str], list[str]]:
    """Return what a version declares, which hooks it could check, and what is wrong."""
    source, checked = prototype_source(rows, headers)
    command = ("cc", "-std=gnu17", INTERNAL, "-fsyntax-only", "-xc", "-", "-I", headers)
    done = attempt(*command, stdin=source)
    faults = [
        f"{version}: the prototype of {symbol} is not the vendor's"
        for symbol in re.findall(r'static assertion failed: "(\w+)"', done.stderr)
    ]
    if done.returncode and not faults:
        faults.append(f"{version}: {done.stderr}")
    numbers = tuple(map(int, version.split(".")))
    ours = printed(layout_source("cuda_subset.h", numbers), native / "src", native / "build")
    theirs = printed(layout_source("cuda.h cudaTypedefs.h", numbers), headers, native / "build")
    faults += [
        f"{version}: cuda_subset.h has {mine!r}, the vendor {other!r}"
        for mine, other in zip(ours, theirs, strict=True)
        if mine != other
    ]
    return declared(headers), checked, faults


def main(native: Path) -> int:
    """Audit; print what is wrong."""
    kinds, excused, faults = classed(native)
    rows = hooks(native)
    hooked = {row.symbol: row.kind for row in rows}
    everything: set[str] = set()
    checked: set[str] = set()
    for version, headers in fetch(native).items():
        names, seen, wrong = check_version(native, version, headers, rows)
        everything |= names
        checked |= seen
        faults += wrong
        faults += [f"{version}: {name} is not classed" for name in sorted(names - kinds.keys())]
    faults += [f"classes.txt: no version has {name}" for name in sorted(kinds.keys() - everything)]
    faults += [f"no version has a typedef for {name}" for name in sorted(hooked.keys() - checked)]
    for symbol, kind in sorted(kinds.items()):
        if symbol in hooked and hooked[symbol] != kind:
            faults.append(f"{symbol} is {kind} in classes.txt, {hooked[symbol]} in hooks.def")
        if symbol not in hooked and symbol not in excused and kind in MUST_BE_HOOKED:
            faults.append(f"{symbol} is {kind}, but neither hooked nor excused in classes.txt")
    summary = f"{len(everything)} functions classed, {len(checked)} hooks checked"
    sys.stdout.write("\n".join([*faults, f"{summary}, {len(faults)} faults", ""]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
