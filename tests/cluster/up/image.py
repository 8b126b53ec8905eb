#!/usr/bin/env python3
"""Make a container image archive from files of this machine, with no registry.

    image.py busybox NAME OUT.tar      /bin/busybox and a link per applet
    image.py glibc NAME OUT.tar        bash, coreutils and friends, with the shared libraries they need
    image.py /A/PROGRAM NAME OUT.tar   this program alone, statically linked, in /bin

The archive is in the `docker save` format; `ctr -n k8s.io images import OUT.tar` takes it. It holds
no times: the same files make the same archive, and OUT.tar is written only when it would differ.
"""

import hashlib
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# fmt: off
PROGRAMS = (
    "bash", "cat", "cp", "dd", "echo", "env", "false", "find", "grep", "head", "id", "kill", "ldd",
    "ls", "mkdir", "mount", "mv", "ps", "readlink", "rm", "sed", "sh", "sleep", "sort", "stat",
    "sync", "tail", "test", "touch", "true", "uname", "wc",
)
FOLDERS = (
    "bin", "sbin", "usr", "usr/bin", "usr/lib", "etc", "proc", "sys", "dev", "tmp", "run", "var",
    "mnt",
)
# fmt: on
# Empty since glibc 2.34, but a tenant program built elsewhere may name them.
OLD_LIBRARIES = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6")


def add_file(layer: tarfile.TarFile, path: str, data: bytes, mode: int = 0o755) -> None:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.mode, info.size = mode, len(data)
    layer.addfile(info, io.BytesIO(data))


def add_link(layer: tarfile.TarFile, path: str, target: str) -> None:
    info = tarfile.TarInfo(path)
    info.type, info.linkname = tarfile.SYMTYPE, target
    layer.addfile(info)


def add_folder(layer: tarfile.TarFile, path: str) -> None:
    info = tarfile.TarInfo(path)
    info.type, info.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
    layer.addfile(info)


def add_base(layer: tarfile.TarFile) -> None:
    for name in FOLDERS:
        add_folder(layer, name)
    users = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
    add_file(layer, "etc/passwd", users, 0o644)
    add_file(layer, "etc/group", b"root:x:0:\nnogroup:x:65534:\n", 0o644)


def add_busybox(layer: tarfile.TarFile) -> None:
    add_file(layer, "bin/busybox", Path("/bin/busybox").read_bytes())
    for applet in subprocess.check_output(["/bin/busybox", "--list"], text=True).split():
        if applet != "busybox":
            add_link(layer, f"bin/{applet}", "busybox")


def add_glibc(layer: tarfile.TarFile) -> None:
    found = {program: path for program in PROGRAMS if (path := shutil.which(program))}
    sources = {f"/bin/{program}": Path(path) for program, path in found.items()}
    for path in found.values():
        listing = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        sources |= {word: Path(word) for word in listing.split() if word.startswith("/")}
    for library in OLD_LIBRARIES:
        path = Path(f"/lib/{platform.machine()}-linux-gnu", library)
        if path.exists():
            sources[str(path)] = path
    made = set(FOLDERS)
    for target, source in sorted(sources.items()):
        for folder in reversed(Path(target.lstrip("/")).parents):
            if str(folder) not in made | {"."}:
                made.add(str(folder))
                add_folder(layer, str(folder))
        add_file(layer, target, source.resolve().read_bytes())


def archive(name: str, layer: bytes) -> bytes:
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin:/sbin"], "Cmd": ["sleep", "2147483647"]},
        "rootfs": {
            "type": "layers",
            "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()],
        },
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as outer:
        add_file(outer, "manifest.json", json.dumps(manifest).encode(), 0o644)
        add_file(outer, "config.json", json.dumps(config).encode(), 0o644)
        add_file(outer, "layer.tar", layer, 0o644)
    return buffer.getvalue()


def main() -> None:
    kind, name, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        add_base(layer)
        if kind.startswith("/"):
            add_file(layer, f"bin/{Path(kind).name}", Path(kind).read_bytes())
        else:
            {"busybox": add_busybox, "glibc": add_glibc}[kind](layer)
    made = archive(name, buffer.getvalue())
    if not out.exists() or out.read_bytes() != made:
        draft = out.with_suffix(".draft")
        draft.write_bytes(made)
        draft.replace(out)


main()
