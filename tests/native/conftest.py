"""Builds `native/` once and gives each test a container of its own on a simulated machine."""

import subprocess

import pytest

from hamid.hooks.abi import contract
from tests.native.container import CARD, TIMEOUT_S, Container, build, limits
from tests.native.headers import fetched

IN_A_CONTAINER = f"""
set -eu
mount -t tmpfs tmpfs /usr/local
mkdir -p {contract.LIMITS_DIR} {contract.USAGE_DIR}
: > {contract.USAGE_PAGE_PATH}
chmod {contract.USAGE_PAGE_MODE:o} {contract.USAGE_PAGE_PATH}
cp "$LIBRARY" {contract.LIBRARY_PATH}
cp "$PAGE" {contract.CONTROL_PAGE_PATH}
mount -o remount,bind,ro {contract.LIMITS_DIR} 2>/dev/null ||
    {{ mount --bind {contract.LIMITS_DIR} {contract.LIMITS_DIR};
       mount -o remount,bind,ro {contract.LIMITS_DIR}; }}
cp -a /etc /usr/local/etc 2>/dev/null || true
printf %s "$PRELOAD" > /usr/local/etc/ld.so.preload
mount --bind /usr/local/etc /etc
exec "$@"
"""


@pytest.fixture(scope="session")
def native_build():
    """The directory with everything that `make -C native all` builds."""
    return build("all")


@pytest.fixture(scope="session")
def cuda_versions():
    """By version, the directory with NVIDIA's headers and runtime."""
    return fetched()


@pytest.fixture
def container(native_build, tmp_path):
    """A container with no limits page yet; what still runs in it is ended with the test."""
    with Container(native_build, tmp_path) as fresh:
        yield fresh


@pytest.fixture
def in_container(container, tmp_path):
    """Run a command where the fixed paths exist, in mount and pid namespaces of its own."""
    unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--map-root-user"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no namespaces here: unshare is not permitted")
    page = tmp_path / "page"

    def run(*command, limit_mib, env=None):
        page.write_bytes(limits((CARD, limit_mib)))
        names = {"LIBRARY": str(container.build / "libhamid.so"), "PAGE": str(page)}
        names["PRELOAD"] = contract.PRELOAD_TEXT
        return subprocess.run(
            [*unshare, "sh", "-c", IN_A_CONTAINER, "sh", *map(str, command)],
            env={**container.env, **names, **(env or {})},
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    return run
