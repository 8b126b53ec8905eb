"""Starts a benchmark by its name, or says in one line what it needs that is not here (exit code 3)."""

import importlib
import sys

MISSING = 3
OLDEST = (3, 11)


def missing(bench: str, what: str) -> SystemExit:
    """Say what it needs; the error to end with."""
    sys.stderr.write(
        f"{bench}: {sys.executable} {what}; `make setup` in the project's folder makes .venv, "
        "which is taken where it is there, or name another: make PYTHON=...\n"
    )
    return SystemExit(MISSING)


def main(bench: str, *words: str) -> None:
    """Run it."""
    if sys.version_info < OLDEST:  # whichever Python make was told of
        raise missing(bench, "is older than Python {}.{}".format(*OLDEST))
    try:
        module = importlib.import_module(f"native.tests.bench.{bench}")
    except ModuleNotFoundError as error:
        raise missing(bench, f"has no module {error.name}") from None
    module.main(*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
