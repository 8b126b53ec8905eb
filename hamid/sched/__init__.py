"""The scheduler role: admission, the extender's verbs, the lease that says which replica decides.

`placement` decides from values alone; the rest acts: on a request, a watch event or a tick.
Nothing here knows the device plugin role or builds a client.
"""
