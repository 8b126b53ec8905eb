"""RTLD_DEEPBIND would lead a library's look-ups past the limits: in a container it has no effect."""

import shutil

import pytest

from tests.native.container import CARD

pytestmark = pytest.mark.native

WAYS = ["dlopen", "dlmopen", "found"]


@pytest.mark.parametrize("way", WAYS)
def test_a_deeply_bound_library_sees_our_dlsym_and_is_found_by_its_opener_s_runpath(container, way):
    container.limit((CARD, 100))

    done = container.run("deep_binding", way)

    assert (done.stdout, done.stderr) == ("ours 4711\n", "")


@pytest.mark.parametrize("way", WAYS)
def test_where_nothing_is_limited_the_flag_does_what_it_always_did(container, way):
    shutil.rmtree(container.limits_dir)

    bare = container.run("deep_binding", way, env={"LD_PRELOAD": ""})
    guest = container.run("deep_binding", way)

    assert guest.stdout == bare.stdout == "libc's 4711\n"
    assert list(container.usage_dir.iterdir()) == []
