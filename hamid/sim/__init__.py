"""Replays of traces and of clusters, without one: the product's own placement over its own books.

Pure: values in, values out; files are read and pictures written by the command (`hamid.daemon`
and `benchmarks` call it). Nothing here decides anything that the scheduler does not decide alike.
"""
