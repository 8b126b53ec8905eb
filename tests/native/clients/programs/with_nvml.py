"""pynvml: what a monitoring program asks."""

import pynvml
from routes import MIB, say

pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
second = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
say(
    name=pynvml.nvmlDeviceGetName(handle),
    total_mib=memory.total // MIB,
    total_mib_v2=second.total // MIB,
    utilisation=pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    processes=len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)),
)
pynvml.nvmlShutdown()
