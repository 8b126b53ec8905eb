"""Images on musl: their loader reads no ld.so.preload, so nothing of ours is in their processes.

NVIDIA's driver library needs glibc, so what runs on musl alone uses no GPU.
"""

import shutil
import subprocess

import pytest

from tests.native.container import TIMEOUT_S

pytestmark = pytest.mark.native

SOURCE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    char line[256];
    FILE *maps = fopen("/proc/self/maps", "r");
    int is_loaded = 0;
    while (maps && fgets(line, sizeof line, maps))
        is_loaded |= strstr(line, "libhamid") != NULL;
    printf("%d %d\n", dlsym(RTLD_DEFAULT, "puts") != NULL, is_loaded);
    return 3;
}
"""


@pytest.fixture(params=["dynamic", "static"])
def program(request, tmp_path):
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        pytest.skip("musl-gcc is not installed (Debian: musl-tools)")
    source, built = tmp_path / "program.c", tmp_path / "program"
    source.write_text(SOURCE)
    how = ["-static"] if request.param == "static" else []
    subprocess.run([compiler, *how, "-o", str(built), str(source)], check=True, timeout=TIMEOUT_S)
    return built


def test_a_program_on_musl_starts_undisturbed_and_without_us(in_container, program):
    bare = subprocess.run([str(program)], check=False, capture_output=True, text=True)

    done = in_container(program, limit_mib=100)

    assert done.stdout == bare.stdout
    assert done.stdout.endswith(" 0\n")
    assert (done.returncode, done.stderr) == (bare.returncode, "") == (3, "")
