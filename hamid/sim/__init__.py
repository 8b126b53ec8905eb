"""Replays of traces and of clusters, without one: the product's own placement over its own books.

Values in, values out; only `command` reads files and speaks to a person. Nothing here decides
anything that the scheduler does not decide alike.
"""
