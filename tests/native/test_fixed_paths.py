"""The library as containers get it: found by ld.so.preload, limited by fixed paths alone."""

import pytest

from hamid.hooks.abi import contract
from tests.native.container import CARD

pytestmark = pytest.mark.native


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
