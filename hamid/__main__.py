"""`python -m hamid`."""

from __future__ import annotations

from hamid.cli import main

if __name__ == "__main__":
    main()
