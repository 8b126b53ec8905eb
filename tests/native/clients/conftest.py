"""A container on a small card for each test of a real client."""

import pytest

from tests.native.clients.machine import MACHINE, Client, client_directory
from tests.native.container import Container


@pytest.fixture
def client(native_build, tmp_path, request):
    """The client that the test is parametrized with, in a container of ours."""
    directory = client_directory(request.param)
    with Container(native_build, tmp_path) as container:
        container.machine.write_text(MACHINE)
        client = Client(directory=directory, container=container)
        client.limit()
        yield client
