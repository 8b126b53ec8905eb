"""The Kubernetes API as a port: plain JSON objects in and out, errors of our own.

`port` is what roles see. `client` talks to a real API server, `fake` is one in memory, and both
pass the same contract suite. `watch` keeps a sink equal to what the server holds. Nothing here
knows GPUs, annotations or which object means what.
"""
