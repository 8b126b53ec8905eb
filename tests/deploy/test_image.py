"""The Dockerfile, and what is in the image that it makes."""

import re
from pathlib import Path

import pytest

from hamid.daemon.settings import HookSettings
from tests.cluster.harness import ClusterUnavailable, do_without
from tests.deploy.images import Image, chart_images, read_image

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
MIB = 1024 * 1024


def test_what_it_copies_exists_and_is_not_ignored():
    allowed = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()

    copied = re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.MULTILINE)

    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in allowed


@pytest.fixture(scope="module")
def image() -> Image:
    try:
        folder = chart_images()
    except ClusterUnavailable as why:
        do_without(why)
    return read_image(folder / "hamid.tar")


@pytest.mark.cluster
def test_it_runs_the_daemon_and_is_not_root_unless_told(image: Image):
    config = image.config["config"]

    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/opt/venv/bin/python", "-m", "hamid"]
    assert config["Cmd"] == ["run", "--config", "/etc/hamid/config.yaml"]


@pytest.mark.cluster
def test_the_library_is_where_the_daemon_looks_for_it(image: Image):
    assert image.files[str(HookSettings().library)].is_regular


@pytest.mark.cluster
def test_nothing_in_it_makes_somebody_root_or_can_be_written_by_all(image: Image):
    regular = [file for file in image.files.values() if file.is_regular]

    assert [file.path for file in regular if file.mode & 0o6000] == []
    assert [file.path for file in regular if file.mode & 0o002] == []
    assert {file.uid for file in regular if file.path.startswith("/opt/")} == {0}


@pytest.mark.cluster
def test_it_holds_what_runs_and_nothing_that_built_it(image: Image):
    tools = r"/(gcc|cc|c\+\+|g\+\+|ld|as|make|pip3?|git|curl|wget)(-[0-9.]+)?"
    rubbish = r"/(root|home|mnt|src|tmp|var/cache/apt|var/lib/apt/lists|var/log)/.*[^/]"

    assert [path for path in image.files if re.fullmatch(r"/(usr/)?s?bin" + tools, path)] == []
    assert [path for path in image.files if re.search(r"-packages/(pip|setuptools)/", path)] == []
    assert [
        file.path
        for file in image.files.values()
        if file.is_regular and re.fullmatch(rubbish, file.path) and "/." not in file.path
    ] == []


@pytest.mark.cluster
def test_nothing_of_the_machine_that_built_it_stays(image: Image):
    kept = r"/etc/(pip\.conf|apt/.*\.(list|sources|conf)|hosts|resolv\.conf)"
    sized = [file.path for file in image.files.values() if file.is_regular and file.size_bytes]

    assert [path for path in sized if re.fullmatch(kept, path)] == []
    assert "PIP_CONFIG_FILE" not in str(image.config)
    assert "proxy" not in str(image.config["config"].get("Env")).lower()


@pytest.mark.cluster
def test_it_is_no_larger_than_it_was(image: Image):
    assert image.size_bytes < 225 * MIB
