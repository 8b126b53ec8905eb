"""Builds `native/` once and gives each test a container of its own on a simulated machine."""

import pytest

from tests.native.container import Container, build


@pytest.fixture(scope="session")
def native_build():
    """The directory with everything that `make -C native all` builds."""
    return build("all")


@pytest.fixture
def container(native_build, tmp_path):
    """A container with no limits page yet; what still runs in it is ended with the test."""
    with Container(native_build, tmp_path) as fresh:
        yield fresh
