"""pynvml: what a monitoring program asks."""

import pynvml
from routes import MIB, say

pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
second = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
say(
    name=pynvml.nvmlDeviceGetName(handle),
    total_mib=memory.total // MIB,
    total_mib_v2=second.total // MIB,
    used_mib=memory.used // MIB,
    used_mib_v2=second.used // MIB,
    utilisation=pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    processes=[[process.pid, process.usedGpuMemory // MIB] for process in processes],
)
pynvml.nvmlShutdown()
