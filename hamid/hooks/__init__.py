"""The daemon's side of the library in the container.

`abi` is pure and says what both sides agree on; the rest puts the library where containers can
mount it and reads what their processes report. Nothing here decides how much a container gets.
"""
