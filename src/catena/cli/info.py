"""`catena info`: what a model is made of."""

from __future__ import annotations

import json as json_module
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import catena as ct
from catena.cli.app import Debug, app
from catena.cli.printing import ROWS, interval_text, new_console, new_table, print_rows, print_title, total_mass, vector_text
from catena.errors import ModelError
from catena.examples import EXAMPLES
from catena.model import Model
from catena.spatial import Screw


@app.command()
def info(
    model: Annotated[str | None, typer.Argument(metavar="FILE|EXAMPLE", help="A model file (.toml) or a built-in example.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Tell what a model is made of: bodies, joints, coordinates, options, cost.

    Without an argument, list the built-in examples. Examples: catena info arm; catena info arm.toml --json
    """
    console = new_console()
    if model is None:
        rows = {name: (make(), _description(make)) for name, make in EXAMPLES.items()}
        if json:
            listed = [{"name": name, "bodies": len(m.links), "nq": m.nq, "nv": m.nv, "description": d} for name, (m, d) in rows.items()]
            typer.echo(json_module.dumps(listed, indent=2))
            return
        table = new_table("example", ">bodies", ">nv", "what it is")
        for name, (m, description) in rows.items():
            table.add_row(name, str(len(m.links)), str(m.nv), description)
        console.print(table)
        console.print("\nSee one with: catena info EXAMPLE")
        return
    m, description = find(model)
    facts = {"name": m.name, "description": description, **_facts(m)}
    if json:
        typer.echo(json_module.dumps(facts, indent=2))
    else:
        _print_facts(console, m, facts)


def find(name: str) -> tuple[Model, str]:
    """Return the model of a file or example, and what it is."""
    if name in EXAMPLES:
        return EXAMPLES[name](), _description(EXAMPLES[name])
    if Path(name).suffix or Path(name).exists():
        return ct.load(name), f"from {name}"
    raise ModelError(f"'{name}' is neither a built-in example nor a file; examples are {', '.join(EXAMPLES)}; files end in .toml")


def _description(make: Callable[[], Model]) -> str:
    text = (make.__doc__ or "").split("\n")[0].removeprefix("Return ")
    return text[:1].upper() + text[1:]


def _facts(m: Model) -> dict[str, Any]:
    """Return what is known of a model, in values that JSON can hold."""
    tree = m.tree()
    kernel = ct.forward_dynamics(m)
    depth = [0] * (tree.n + 1)
    for k in range(tree.n):
        depth[k] = depth[tree.parent[k]] + 1
    names = (*tree.names, "ground")
    children = Counter(names[p] for p in tree.parent)
    placements = [factor for k in range(tree.n) for factor in tree.placement(k, m.neutral()).factors]
    screws = sum(isinstance(factor, Screw) for factor in placements)
    options = ("damping", "stiffness", "friction", "armature")
    return {
        "bodies": len(m.links),
        "joints": dict(Counter(link.joint.kind for link in m.links)),
        "nq": m.nq,
        "nv": m.nv,
        "mass": total_mass(m),
        "gravity": list(m.gravity),
        "friction_speed": m.friction_speed,
        "options": {name: [link.name for link in m.links if any(getattr(link.joint, name))] for name in options},
        "limits": _limits(m),
        "springs": [{key: getattr(spring, key) for key in spring.__dataclass_fields__} for spring in m.springs],
        "forces": [{"name": f.name, "body": f.body, "traced": f.traced} for f in m.forces],
        "depth": max(depth),
        "branches": {name: count for name, count in children.items() if count > 1},
        "placements": {"screws": screws, "dense": len(placements) - screws},
        "forward_dynamics": {
            "method": kernel.method,
            "operations": kernel.operations,
            "total": sum(kernel.operations.values()),
        },
        "q": [{"name": name, "unit": unit} for name, unit in zip(m.q_names, m.q_units, strict=True)],
        "v": [{"name": name, "unit": unit} for name, unit in zip(m.v_names, m.v_units, strict=True)],
    }


def _limits(m: Model) -> dict[str, list[float | None]]:
    """Return the lower and upper limits of the coordinates that have any."""
    ends = [(link.joint.lower.tolist(), link.joint.upper.tolist()) for link in m.links]
    pairs = [pair for lower, upper in ends for pair in zip(lower, upper, strict=True)]
    limited = {name: pair for name, pair in zip(m.v_names, pairs, strict=True) if np.isfinite(pair).any()}
    return {name: [end if np.isfinite(end) else None for end in pair] for name, pair in limited.items()}


def _print_facts(console: Console, m: Model, facts: dict[str, Any]) -> None:
    def listed(counts: dict[str, Any]) -> str:
        return ", ".join(f"{kind} {count:,}" for kind, count in counts.items())

    forward = facts["forward_dynamics"]
    options = {name: bodies for name, bodies in facts["options"].items() if bodies}
    smoothed = f"; friction smoothed over {m.friction_speed:g} rad/s or m/s" if "friction" in options else ""
    branches = ", ".join(f"{name} ({count})" for name, count in facts["branches"].items())
    rows = {
        "bodies": str(facts["bodies"]),
        "joints": listed(facts["joints"]),
        "freedom": f"nq = {m.nq}, nv = {m.nv}",
        "mass": f"{facts['mass']:.6g} kg",
        "gravity": f"{vector_text(m.gravity)} m/s^2",
        "options": (", ".join(f"{name} on {len(bodies)}" for name, bodies in options.items()) or "none") + smoothed,
        "limits": ", ".join(f"{name} {interval_text(*pair)}" for name, pair in facts["limits"].items()) or "none",
        "springs": ", ".join(f"{s.name} ({s.a} to {s.b})" for s in m.springs) or "none",
        "forces": ", ".join(f"{f.name} ({'on ' + f.body if f.body else 'joint forces'})" for f in m.forces) or "none",
        "depth": f"{facts['depth']} (joints from the ground to the farthest body)",
        "branches": branches or "none",
        "placements": f"{listed(facts['placements'])} (in canonical frames)",
        "operations": f"{forward['total']:,} for forward dynamics by {forward['method']} ({listed(forward['operations'])})",
    }
    print_title(console, f"{facts['name']}: {facts['description']}")
    print_rows(console, rows)
    for title, coordinates in (("\nPositions q", facts["q"]), ("\nVelocities v", facts["v"])):
        print_title(console, title)
        table = new_table(">index", "name", "unit")
        for i, coordinate in enumerate(coordinates[:ROWS]):
            table.add_row(str(i), coordinate["name"], coordinate["unit"])
        console.print(table)
        if len(coordinates) > ROWS:
            console.print(f"and {len(coordinates) - ROWS} more; --json lists all")
