import os
from pathlib import Path

import pytest

from hamid.aiokit.memory_file import memory_file


def test_the_path_leads_to_the_content_while_the_block_lasts():
    with memory_file(b"the key") as path:
        assert Path(path).read_bytes() == b"the key"

    assert not Path(path).exists()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files in memory")
def test_no_disk_is_needed(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")

    with memory_file(b"the key") as path:
        assert Path(path).read_bytes() == b"the key"
