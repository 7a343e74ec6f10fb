"""Growth to ten thousand bodies and ten thousand loops: making forward dynamics, microseconds a state, memory; one core.

    python benchmarks/scale.py [--quick] [--json FILE]

Chains of general geometry as in dynamics.py, and the ladders of four-bars of ladder.py, each in a new process with an empty cache. The time
of making is that of the processor, from the model to the kernel. States are 64 in one call; times are minima over repeats.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import machine
import results

SIZES = (100, 300, 1000, 3000, 10_000)
STATES = 64

CODE = """
import json, resource, sys, time
sys.path.insert(0, {folder!r})
import machine
from {script} import ct, {make}, states
m = {make}({size})
began = time.process_time()
kernel = ct.forward_dynamics(m)
made = time.process_time() - began
given = states({given}, {states})
out = kernel(*given)
best = machine.fastest({{"catena": lambda: kernel(*given, out=out)}}, {seconds})["catena"]
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
print(json.dumps({{"us": 1e6 * best / {states}, "made": made, "MB": most, "operations": sum(kernel.operations.values())}}))
"""


def measured(kind: str, size: int, seconds: float) -> dict[str, Any]:
    """Return the figures of a chain or a ladder of a size."""
    names = {"chain": ("dynamics", "chain", "m"), "ladder": ("ladder", "ladder", str(size))}[kind]
    given = dict(zip(("script", "make", "given"), names, strict=True))
    code = CODE.format(folder=str(Path(__file__).parent), size=size, states=STATES, seconds=seconds, **given)
    return machine.in_new_process(code, "off")


def main() -> None:
    """Measure, print and write the figures."""
    options = results.parser(__doc__, "up to 1,000, shorter repeats").parse_args()
    sizes = SIZES[:3] if options.quick else SIZES
    rows = []
    for kind in ("chain", "ladder"):
        found = {size: measured(kind, size, 0.5 if options.quick else 3.0) for size in sizes}
        for size, one in found.items():
            figures = {"made_seconds": one["made"], "memory_MB": round(one["MB"]), "operations": one["operations"]}
            rows.append(results.row(f"{kind} of {size}", "forward dynamics, batch", one["us"], **figures))
    results.report("scale", rows, options)


if __name__ == "__main__":
    main()
