"""The scheduling core: who fits where, who is best, and why not.

Pure: values in, values out. Same state and same request, same answer; the order in which nodes
or devices are handed in does not matter.
"""
