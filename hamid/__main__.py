"""python -m hamid."""

from hamid.cli import main

main()
