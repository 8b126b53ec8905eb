"""Bytes granted before a refusal ÷ the limit, for each way to take device memory.

Granted is the larger of what was asked for and what the simulated driver took of the device. What is not charged to
anybody by design, and so goes beyond the limit, has a line too, which says so.
"""

import json
import tempfile
from pathlib import Path

from hamid.hooks.abi.contract import CONTROL_PAGE_NAME
from hamid.hooks.abi.pages import ContainerLimits, DeviceLimit, encode_control_page
from native.tests.bench.stand import CARD, MIB, NATIVE, Stand, report

LIMIT_MIB = 3200
SMALL_LIMIT_MIB = 512
"""For calls of before CUDA 3.2, whose addresses have 32 bits."""
UNIT_MIB = 32
CONTEXT_MIB = 320
CARD_MIB = 2 * LIMIT_MIB
ROUTES = (
    "alloc",
    "managed",
    "pitch",
    "narrow pitch",
    "async",
    "async freed at once",
    "async of thread",
    "pool",
    "own pool",
    "handle",
    "mapping",
    "multicast",
    "sparse array",
    "array",
    "array3d",
    "mipmap",
    "graph",
    "graph node",
    "graph uploaded",
    "external",
    "heap",
    "green context",
)
ROUTES_V1 = ("alloc v1", "narrow pitch v1")
KINDS_OF_IMPORTS = ("ipc", "handle", "pool")
GOES = (("last", ""), ("frees", ", its maker has freed it"), ("ends", ", its maker has ended"))
"""What was made then is held by who imported it; the simulated driver says only what its maker had."""
BY_DESIGN = "not charged by calls, by design"


def lines_of(
    *command: object,
    limit_mib: int = LIMIT_MIB,
    fixed_mib: int | None = None,
    context_mib: int = 0,
    charged_context_mib: int = 0,
) -> list[dict]:
    """Run a program in a container of so much; a context costs so much on its card, and is charged so much."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        place = Stand(directory, limit_mib=limit_mib, driver=NATIVE / "build/sim")
        device = DeviceLimit(
            device_uuid=CARD,
            memory_bytes=limit_mib * MIB,
            fixed_bytes=None if fixed_mib is None else fixed_mib * MIB,
            context_bytes=charged_context_mib * MIB,
        )
        limits = ContainerLimits(devices=(device,), priority=1, generation=1)
        (directory / CONTROL_PAGE_NAME).write_bytes(encode_control_page(limits))
        (directory / "devices").write_text(
            f"uuid={CARD}\nname=NVIDIA A100-SXM4-40GB\nmemory_mib={CARD_MIB}\ncontext_mib={context_mib}\n"
        )
        place.hooked_env["HAMID_SIM_DEVICES"] = str(directory / "devices")
        place.hooked_env["HAMID_SIM_STATE"] = str(directory / "state")
        program, *arguments = command
        path = NATIVE / "build/bin" / str(program)
        return [json.loads(line) for line in place.run(path, *arguments, is_hooked=True)]


def report_fill(
    case: str, route: str, *, unit_mib: int = UNIT_MIB, of_mib: int = LIMIT_MIB, **terms: int
) -> None:
    """Take by a route until it is refused."""
    (line,) = lines_of("route", "fill", route, unit_mib, **terms)
    granted = max(line["granted"], line["physical"])
    report("bench-memory", case, "ratio", granted / (of_mib * MIB), n=line["count"])


def report_imports(kind: str) -> None:
    """Have a process take all, and another of the same container import it and ask for more."""
    for goes, when in GOES:
        lines = lines_of("share", kind, UNIT_MIB, goes, 1)
        made = next(line for line in lines if line["when"] == "while imported")
        more = next(line for line in lines if line["when"] == "took one more")
        granted = made["physical"] + more["physical"]
        case = f"{kind}, imported by another process{when}"
        report("bench-memory", case, "ratio", granted / (LIMIT_MIB * MIB), n=more["count"])


def main() -> None:
    """Print a line per route."""
    for route in ROUTES:
        report_fill(route, route)
    for route in ROUTES_V1:
        report_fill(route, route, of_mib=SMALL_LIMIT_MIB, limit_mib=SMALL_LIMIT_MIB)
    for kind in KINDS_OF_IMPORTS:
        report_imports(kind)
    real_mib = LIMIT_MIB // 2
    report_fill("alloc, oversubscribed", "alloc", fixed_mib=real_mib)
    report_fill(
        "pool, oversubscribed, of the real share", "pool", of_mib=real_mib, fixed_mib=real_mib
    )
    charged = {"context_mib": CONTEXT_MIB, "charged_context_mib": CONTEXT_MIB}
    report_fill("context, where charged", "context", unit_mib=CONTEXT_MIB, **charged)
    report_fill(f"alloc beside a context: it is {BY_DESIGN}", "alloc", context_mib=CONTEXT_MIB)
    report_fill(f"code: {BY_DESIGN}; here the card ends it", "code")


if __name__ == "__main__":
    main()
