"""Short paths for unix sockets, as in the device plugin's tests."""

from tests.plugin.conftest import short_path

__all__ = ["short_path"]
