"""The library as containers get it: found by ld.so.preload, limited by fixed paths alone."""

import subprocess

import pytest

from hamid.hooks.abi import contract
from tests.native.container import CARD, TIMEOUT_S, limits

pytestmark = pytest.mark.native

IN_A_CONTAINER = f"""
set -eu
mount -t tmpfs tmpfs /usr/local
mkdir -p {contract.LIMITS_DIR} {contract.USAGE_DIR}
chmod {contract.USAGE_DIR_MODE:o} {contract.USAGE_DIR}
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


def test_the_limit_of_the_fixed_path_holds(container, in_container):
    done = in_container(container.build / "bin/alloc_mib", 3000, 1, limit_mib=3000)

    assert done.stdout.count("CUDA_ERROR_OUT_OF_MEMORY") == 1, done.stderr
    assert '"total_mib": 3000, "free_mib": 0' in done.stdout


def test_another_page_named_by_the_environment_is_not_looked_at(container, in_container):
    container.limit((CARD, 30_000))  # in HAMID_TEST_LIMITS_DIR, for the library built for tests

    done = in_container(container.build / "bin/alloc_mib", 3001, limit_mib=3000)

    assert done.stdout.count("CUDA_ERROR_OUT_OF_MEMORY") == 1, done.stderr


def test_the_tenant_cannot_write_the_page(in_container):
    done = in_container(
        "sh", "-c", f"echo 0 > {contract.CONTROL_PAGE_PATH}; rm {contract.CONTROL_PAGE_PATH}",
        limit_mib=3000,
    )  # fmt: skip

    assert done.returncode != 0
    assert done.stderr.count("Read-only file system") == 2


def test_processes_of_two_pid_namespaces_share_the_limit(container, in_container):
    program = container.build / "bin/alloc_mib"
    script = (
        f"mkfifo /usr/local/orders; {program} --interactive 60 < /usr/local/orders & "
        "exec 3> /usr/local/orders; "
        f"until grep -q GPU {contract.USAGE_PAGE_PATH}; do :; done; "
        f"echo inner; unshare --pid --fork --mount-proc {program} 41 40; "
        "exec 3>&-; wait; "
        f"echo alone; unshare --pid --fork --mount-proc {program} 100 1"
    )

    done = in_container("sh", "-c", script, limit_mib=100)

    _, _, inner = done.stdout.partition("inner\n")
    together, _, alone = inner.partition("alone\n")
    results = [line.split('"result": ')[1] for line in together.splitlines() if "Alloc" in line]
    assert results == ['"CUDA_ERROR_OUT_OF_MEMORY"}', '"CUDA_SUCCESS"}'], done.stderr
    results = [line.split('"result": ')[1] for line in alone.splitlines() if "Alloc" in line]
    assert results == ['"CUDA_SUCCESS"}', '"CUDA_ERROR_OUT_OF_MEMORY"}'], done.stderr
