"""The house rules that can be counted: where modules and their tests are, how long they may be."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "hamid"
TESTS = ROOT / "tests"

GENERATED = {
    "kubelet/v1beta1/__init__.py",
    "kubelet/podresources_v1/__init__.py",
    "kubelet/pods_v1alpha1/__init__.py",
}
"""By betterproto2 from the vendored protos; tests/kubelet/test_generated.py makes them anew."""

TESTED_ELSEWHERE = {
    "__main__.py": "one call; tests/e2e and tests/daemon/test_lifecycle.py run it as a process",
    "kube/fake/answers.py": "what kubectl reads; tests/kube/fake/test_server.py",
    "kube/fake/binding.py": "tests/contracts/kube_contract.py, on the fake and on a real server",
    "kube/fake/catalog.py": "tests/kube/fake/test_server.py and the contract suite",
    "kube/fake/discovery.py": "tests/kube/fake/test_server.py, with kubectl",
    "kube/fake/features.py": "tests/kube/fake/test_api.py",
    "kube/fake/gate.py": "tests/kube/fake/test_faults.py",
    "kube/fake/kube.py": "the contract suite, on the fake and on a real server",
    "kube/fake/rules.py": "tests/kube/fake/test_api.py and the contract suite",
    "kube/fake/store.py": "tests/kube/fake/test_api.py and the contract suite",
    "kube/fake/values.py": "values only",
    "kubelet/errors.py": "classes only",
    "kubelet/fake/devices.py": "tests/kubelet/fake/test_kubelet.py and the contract suite",
    "kubelet/message_pool.py": "names what the generated code needs",
    "kubelet/metrics.py": "tests/kubelet/test_server.py and test_registration.py",
    "kubelet/port.py": "values and protocols; the contract suite",
    "nvml/errors.py": "classes only",
    "nvml/port.py": "values and protocols; the contract suite",
    "web/settings.py": "values only",
}
"""Module → why it has no test file of its own, and where it is tested."""

LONG_ON_PURPOSE = {
    "simulated_cluster": "constructor calls, in the order in which the parts begin",
    "simulated_node": "the same for one node",
}

NAMES_THAT_SAY_NOTHING = {"base", "common", "helpers", "manager", "misc", "types", "util", "utils"}
LONGEST_MODULE = 400
LONGEST_FUNCTION = 40
LONGEST_CONFTEST = 120

MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if str(path.relative_to(PACKAGE)) not in GENERATED
)
TEST_FILES = sorted(TESTS.rglob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_module_has_its_test_file():
    lacking = {
        str(module)
        for module in (path.relative_to(PACKAGE) for path in MODULES)
        if module.name != "__init__.py"
        and not (TESTS / module.parent / f"test_{module.name}").exists()
    }

    assert lacking - TESTED_ELSEWHERE.keys() == set(), "write tests/<room>/test_<module>.py"
    assert TESTED_ELSEWHERE.keys() - lacking == set(), "take it from the list: it is tested now"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_and_keeps_its_size(path):
    text = path.read_text(encoding="utf-8")

    assert ast.get_docstring(tree_of(path)) or path.name == "__main__.py"
    assert len(text.splitlines()) <= LONGEST_MODULE
    assert path.stem not in NAMES_THAT_SAY_NOTHING


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_are_short(path):
    long = {
        node.name: node.end_lineno - node.body[0].lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name not in LONG_ON_PURPOSE
        and node.end_lineno - node.body[0].lineno >= LONGEST_FUNCTION
    }

    assert long == {}


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.name == "__init__.py"], ids=name_of
)
def test_a_package_has_a_charter_and_no_code(path):
    charter, *rest = tree_of(path).body

    assert isinstance(charter, ast.Expr)
    assert all(isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) for node in rest)
    names = {t.id for node in rest if isinstance(node, ast.Assign) for t in node.targets}
    assert names <= {"__all__", "__version__"}


def test_imports_point_the_way_the_floors_say():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_tests_use_fakes_and_wait_for_what_happens(path):
    """No mocks, and no `time.sleep`; `asyncio.sleep` is for turns of the loop and virtual time."""
    if not re.search(r"unittest|time\s*\.\s*sleep", path.read_text(encoding="utf-8")):
        return  # most files, and to read a tree takes long
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            assert not [alias for alias in node.names if alias.name.startswith("unittest")]
        elif isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("unittest")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert ast.unparse(node.func) != "time.sleep"


def test_what_all_tests_share_stays_small():
    assert len((TESTS / "conftest.py").read_text().splitlines()) <= LONGEST_CONFTEST
