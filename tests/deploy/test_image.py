"""The Dockerfile names what is there: nobody builds it here."""

import re
from pathlib import Path

from hamid.daemon.settings import HookSettings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_what_it_copies_exists_and_is_not_ignored():
    allowed = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()

    copied = re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.MULTILINE)

    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in allowed


def test_the_library_is_where_the_daemon_looks_for_it():
    assert f" {HookSettings().library}\n" in DOCKERFILE


def test_the_default_user_is_not_root():
    assert "\nUSER 65532:65532\n" in DOCKERFILE
