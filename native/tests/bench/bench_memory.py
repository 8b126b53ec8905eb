"""Bytes granted before a refusal ÷ the limit, for each way to take device memory.

Granted is the larger of what was asked for and what the simulated driver took of the device.
"""

import json

from native.tests.bench.stand import CARD, MIB, NATIVE, report, stand

LIMIT_MIB = 3200
UNIT_MIB = 32
ROUTES = (
    "alloc",
    "managed",
    "pitch",
    "async",
    "async freed at once",
    "pool",
    "handle",
    "mapping",
    "array",
    "array3d",
    "mipmap",
    "graph",
    "own pool",
    "graph node",
    "external",
)
MACHINE = f"uuid={CARD}\nname=NVIDIA A100-SXM4-40GB\nmemory_mib=40960\ncontext_mib=0\n"


def main() -> None:
    """Print a line per route."""
    for route in ROUTES:
        with stand(limit_mib=LIMIT_MIB, driver="build/sim") as place:
            (place.directory / "devices").write_text(MACHINE)
            place.hooked_env["HAMID_SIM_DEVICES"] = str(place.directory / "devices")
            place.hooked_env["HAMID_SIM_STATE"] = str(place.directory / "state")
            program = NATIVE / "build/bin/route"
            (line,) = map(json.loads, place.run(program, "fill", route, UNIT_MIB, is_hooked=True))
            granted = max(line["granted"], line["physical"])
            report("bench-memory", route, "ratio", granted / (LIMIT_MIB * MIB), n=line["count"])


if __name__ == "__main__":
    main()
