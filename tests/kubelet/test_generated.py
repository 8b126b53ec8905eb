"""The generated messages are what the vendored protos give."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hamid.kubelet
from hamid.kubelet import podresources_v1, pods_v1alpha1, v1beta1

ROOM = Path(hamid.kubelet.__file__).parent
PACKAGES = ("v1beta1", "podresources_v1", "pods_v1alpha1")

needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None
    or not (Path(sys.executable).parent / "protoc-gen-python_betterproto2").exists()
    or shutil.which("make") is None,
    reason="the dependency group 'generate' (or make) is not installed",
)


@needs_compiler
@pytest.mark.slow
def test_regenerating_changes_nothing(tmp_path):
    subprocess.run(
        ["make", "-C", str(ROOM / "proto"), f"PYTHON={sys.executable}", f"OUT={tmp_path}"],
        check=True,
        capture_output=True,
    )

    for package in PACKAGES:
        fresh = (tmp_path / package / "__init__.py").read_text()
        committed = (ROOM / package / "__init__.py").read_text()
        assert fresh == committed, f"run `make generate`: {package} differs"


@pytest.mark.parametrize("package", [v1beta1, podresources_v1, pods_v1alpha1])
def test_each_package_says_that_it_is_generated(package):
    first_line = Path(package.__file__).read_text().splitlines()[0]

    assert "DO NOT EDIT" in first_line


def test_the_pod_payload_skips_the_fields_it_does_not_know():
    # metadata (1) holds name (1), generateName (2), namespace (3), uid (5), annotations (12)
    metadata = b"\x0a\x01p\x12\x03gen\x1a\x02ns\x2a\x03uid\x62\x06\x0a\x01k\x12\x01v"
    payload = b"\x0a" + bytes([len(metadata)]) + metadata + b"\x12\x03\x5a\x01x"

    pod = pods_v1alpha1.Pod.FromString(payload)

    assert pod.metadata is not None
    assert (pod.metadata.namespace, pod.metadata.name, pod.metadata.uid) == ("ns", "p", "uid")
    assert pod.metadata.annotations == {"k": "v"}
