"""The driver's management library (NVML) as a port: what cards there are and how they fare.

`port` says what the rest of hamid sees; `client` is the real thing and the only importer of
`pynvml`; `fake` is the same in memory; `profiles` knows common cards and writes the file that the
simulated library reads.
"""
