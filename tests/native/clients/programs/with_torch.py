"""PyTorch: its caching allocator, its figures, copies and a matrix product."""

import torch
from routes import MIB, say, try_routes

device = torch.device("cuda:0")
free, total = torch.cuda.mem_get_info()
say(available=torch.cuda.is_available(), total_mib=total // MIB)


def give(tensor):
    tensor.set_()
    torch.cuda.empty_cache()


def take(size):
    return torch.empty(size, dtype=torch.uint8, device=device)


def figures():
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return {
        "free_bytes": free_bytes,
        "total_bytes": total_bytes,
        "allocated_bytes": torch.cuda.memory_allocated(),
    }


# Blocks of a MiB are the largest that its allocator cuts from segments of two.
try_routes({"tensor": (take, give, MIB)}, RuntimeError, figures)

tensor = torch.arange(1000).to(device)
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
begin.record()
product = torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)
end.record()
torch.cuda.synchronize()
say(
    copied_back=torch.equal(tensor.cpu(), torch.arange(1000)),
    shape=list(product.shape),
    took_time=begin.elapsed_time(end) > 0,
    allocated_mib=torch.cuda.memory_allocated() // MIB,
)
