"""Where the golden files are, and how tests read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"


def golden_text(path: str) -> str:
    """A golden text, without the line end that the file has and the cluster has not."""
    return (GOLDEN / path).read_text().removesuffix("\n")


def golden_json(path: str) -> Any:
    """A golden JSON document; written for people to read, so its bytes do not count."""
    return json.loads((GOLDEN / path).read_text())


def golden_body(path: str) -> bytes:
    """A golden JSON document as a peer sends it."""
    return json.dumps(golden_json(path), separators=(",", ":")).encode()


def golden_names(folder: str, pattern: str) -> list[str]:
    """The names, without suffix, of the golden files of a kind."""
    return sorted(path.stem for path in (GOLDEN / folder).glob(pattern))
