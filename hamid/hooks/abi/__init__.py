"""What the daemon and the library in the container agree on, as values and bytes. Pure.

A module belongs here if `native/` has its other half: paths, names and the ABI version
(`contract`), the bytes of the pages (`pages`, `live`, `usage`, `budgets`), what a container is given
(`injection`).
"""
