"""The images that the chart runs, as tests/cluster/up/chart-images.sh makes them."""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.harness import CANNOT, NOT_BUILT, UP, ClusterUnavailable, CommandFailed


def chart_images() -> Path:
    """The folder of hamid.tar and kube-scheduler.tar, up to date; raises ClusterUnavailable.

    What is there is made from other sources only when those changed, in less than a minute; what
    is not there at all takes minutes.
    """
    done = subprocess.run(
        [str(UP / "chart-images.sh"), "make"], capture_output=True, text=True, check=False
    )
    if done.returncode in {CANNOT, NOT_BUILT}:
        raise ClusterUnavailable(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        raise CommandFailed(f"chart-images.sh make: {done.stderr[-4000:]}")
    return Path(done.stdout.strip().splitlines()[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """A file of an image, as a container finds it; links are not followed."""

    path: str
    mode: int
    uid: int
    size_bytes: int
    is_regular: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an archive in the format of `docker save` holds."""

    config: dict[str, Any]
    files: dict[str, ImageFile]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files.values())


def read_image(archive: Path) -> Image:
    """The one image of the archive, its layers put over each other."""
    files: dict[str, ImageFile] = {}
    with tarfile.open(archive) as outer:
        (manifest,) = json.load(_member(outer, "manifest.json"))
        config = json.load(_member(outer, manifest["Config"]))
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=_member(outer, name)) as layer:
                for file in _files(layer):
                    _put(files, file)
    return Image(config=config, files=files)


def _files(layer: tarfile.TarFile) -> Iterator[ImageFile]:
    for info in layer:
        yield ImageFile(
            path="/" + info.name.removeprefix("./").strip("/"),
            mode=info.mode,
            uid=info.uid,
            size_bytes=info.size,
            is_regular=info.isreg(),
        )


def _put(files: dict[str, ImageFile], file: ImageFile) -> None:
    folder, _, name = file.path.rpartition("/")
    if name == ".wh..wh..opq":
        gone = f"{folder}/"
    elif name.startswith(".wh."):
        gone = f"{folder}/{name.removeprefix('.wh.')}"
    else:
        files[file.path] = file
        return
    for path in [path for path in files if path == gone or path.startswith(gone.rstrip("/") + "/")]:
        del files[path]


def _member(outer: tarfile.TarFile, name: str) -> Any:
    found = outer.extractfile(name)
    assert found is not None
    return found
