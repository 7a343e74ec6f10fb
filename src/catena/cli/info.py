"""`catena info`: what a model is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from catena.cli import printing
from catena.cli.app import Contact, Debug, FloatingBase, Ignore, Json, SetParameter, Tolerance, app, model_argument
from catena.cli.parameter_settings import with_settings
from catena.errors import ArgumentError, ModelError
from catena.examples import EXAMPLES
from catena.facade import Model, load
from catena.kernels.dynamics import forward_dynamics_graph
from catena.model.contacts import NUMBERS as CONTACT_NUMBERS
from catena.model.outline import vector_text
from catena.model.wording import choice
from catena.spatial import Screw


@app.command()
def info(
    model: Annotated[str | None, model_argument()] = None,
    parameters: Annotated[bool, typer.Option("--parameters", help="List the numbers of the model, by the paths that name them.")] = False,
    set_parameter: SetParameter = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    contact: Contact = None,
    tolerance: Tolerance = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print what a model is made of: bodies, joints, loops, coordinates, options, cost.

    Without an argument, list the built-in examples.

    \b
    Examples:
      catena info
      catena info four-bar
      catena info arm.toml --json
      catena info four-bar --parameters
      catena info robot.urdf --floating-base
    """
    console = printing.new_console()
    if model is None:
        if parameters or set_parameter:
            raise ArgumentError("--parameters and --set-parameter are for a model; give its file, or the name of an example")
        rows = {name: (make(), _description(make)) for name, make in EXAMPLES.items()}
        if json:
            listed = [
                {"name": name, "bodies": len(m.links), "nq": m.nq, "nv": m.nv, "freedom": m.mobility().freedom, "description": d}
                for name, (m, d) in rows.items()
            ]
            printing.print_json(listed)
            return
        cells = [(name, str(len(m.links)), str(m.nv), str(m.mobility().freedom), described) for name, (m, described) in rows.items()]
        printing.print_table(console, "", ("example", ">bodies", ">nv", ">freedom", "what it is"), cells)
        console.print("\nSee one with: catena info EXAMPLE")
        return
    m, description = find(model, floating_base, ignore, tolerance, set_parameter, contact)
    if parameters:
        _print_parameters(console, m, json)
        return
    facts = {"name": m.name, "description": description, **_facts(m)}
    if json:
        printing.print_json(facts)
    else:
        _print_facts(console, m, facts)


def find(
    name: str,
    floating_base: bool = False,
    ignore: list[str] | None = None,
    tolerance: float | None = None,
    set_parameter: list[str] | None = None,
    contact: str | None = None,
) -> tuple[Model, str]:
    """Return the model of a file or example, with the numbers that are set, and a description of it."""
    if name in EXAMPLES:
        if floating_base or ignore or contact or tolerance is not None:
            options = "--floating-base, --ignore, --contact and --tolerance"
            raise ModelError(f"'{name}' is a built-in example, and {options} are for files; leave them out")
        return with_settings(EXAMPLES[name](), set_parameter or ()), _description(EXAMPLES[name])
    if Path(name).suffix or Path(name).exists():
        m = load(name, floating_base=floating_base, ignore=ignore or (), tolerance=tolerance, contact=contact)
        return with_settings(m, set_parameter or ()), f"from {name}"
    raise ModelError(f"'{name}' is neither a built-in example nor a file; {choice(name, EXAMPLES)}; files end in .toml, .urdf or .xml")


def _description(make: Callable[[], Model]) -> str:
    text = (make.__doc__ or "").split("\n")[0].removeprefix("Return ")
    return text[:1].upper() + text[1:]


def _facts(m: Model) -> dict[str, Any]:
    """Return the facts of a model, in values that JSON can hold."""
    tree = m.tree().at(0.0)
    method, graph = forward_dynamics_graph(m)
    names = (*tree.names, "ground")
    children = Counter(names[p] for p in tree.parent)
    neutral = m.neutral()
    placements = [factor for k in range(tree.n) for factor in tree.placement(k, neutral).factors]
    screws = sum(isinstance(factor, Screw) for factor in placements)
    options = ("damping", "stiffness", "friction", "armature")
    return {
        "bodies": len(m.links),
        "joints": dict(Counter(link.joint.kind for link in m.links)),
        "nq": m.nq,
        "nv": m.nv,
        **_mobility(m),
        "mass": printing.total_mass(m),
        "gravity": list(m.gravity),
        "friction_speed": list(m.friction_speed) if isinstance(m.friction_speed, tuple) else m.friction_speed,
        "options": {name: [link.name for link in m.links if any(getattr(link.joint, name))] for name in options},
        "limits": _limits(m),
        "effort": _largest(m, "effort"),
        "velocity": _largest(m, "velocity"),
        "frames": [{"name": frame.name, "body": frame.body, "at": frame.at.matrix().tolist()} for frame in m.frames],
        "springs": [{key.name: getattr(spring, key.name) for key in fields(spring)} for spring in m.springs],
        "bushings": [{"name": b.name, "a": b.a, "b": b.b} for b in m.bushings],
        "contacts": [{key: getattr(c, key) for key in ("name", "body", "against", *CONTACT_NUMBERS)} for c in m.contacts],
        "forces": [
            *({"name": f.name, "body": f.body, "traced": f.traced} for f in m.forces),
            *({"name": f.name, "body": f.body, "traced": True} for f in m.point_forces),
        ],
        "actuators": [asdict(one) | {"coefficients": dict(one.coefficients)} for one in m.actuators],
        "notes": list(m.notes),
        "depth": max(tree.depth, default=-1) + 1,
        "branches": {name: count for name, count in children.items() if count > 1},
        "placements": {"screws": screws, "dense": len(placements) - screws},
        "forward_dynamics": {"method": method, "operations": graph.operations, "total": sum(graph.operations.values())},
        "q": _coordinates(m, "q"),
        "v": _coordinates(m, "v"),
    }


def _coordinates(m: Model, which: str) -> list[dict[str, str]]:
    """Return the names and units of positions or velocities, with those of the joints where a file gives them."""
    joints = [joint for link in m.links for joint in [m.joint_names.get(link.name)] * getattr(link.joint, f"n{which}")]
    entries = zip(getattr(m, f"{which}_names"), getattr(m, f"{which}_units"), joints, strict=True)
    return [{"name": name, "unit": unit, **({} if joint is None else {"joint": joint})} for name, unit, joint in entries]


def _print_parameters(console: Console, m: Model, json: bool) -> None:
    """Print the numbers of a model: path, value, unit, and the parameters of the user's own that they follow."""
    known = m.parameters().values()
    if json:
        printing.print_json([{"path": p.path, "value": p.value.tolist(), "unit": p.unit, "follows": p.follows} for p in known])
        return
    followed = any(p.follows for p in known)
    rows = [(p.path, _value_text(p.value), p.unit, *([p.follows] if followed else [])) for p in known]
    printing.print_table(console, f"Numbers of {m.name}", ("path", "value", "unit", *(["follows"] if followed else [])), rows)


def _value_text(value: np.ndarray) -> str:
    """Return a number, or several, as they are typed.

    >>> _value_text(np.array([0.0, -0.0, -9.81])), _value_text(np.diag([1.0, 2.0, 2.0]))
    ('0,0,-9.81', '1,2,2 (diagonal)')
    """
    if value.ndim == 2 and np.array_equal(value, np.diag(np.diag(value))):
        return f"{_value_text(np.diag(value))} (diagonal)"
    return ",\n".join(",".join(f"{x + 0.0:.6g}" for x in row) for row in np.atleast_2d(value))


def _mobility(m: Model) -> dict[str, Any]:
    """Return the loops and couplings of a model, and its mobility."""
    if not m.has_loops:
        return {"freedom": m.nv, "loops": [], "couplings": [], "mobility": None}
    mobility = m.mobility()
    return {
        "freedom": mobility.freedom,
        "loops": [
            {
                "name": loop.name, "joint": closure.joint.kind, "a": closure.a, "b": closure.b, "base": loop.base,
                "bodies": list(loop.bodies), "constraints": loop.constraints,
            }
            for loop, closure in zip(mobility.loops, m.loops, strict=True)
        ],
        "couplings": [{"name": c.name, "coefficients": dict(c.coefficients), "offset": c.offset} for c in m.couplings],
        "mobility": {
            "constraints": mobility.constraints,
            "redundant": mobility.redundant,
            "independent": list(mobility.independent),
            "dependent": list(mobility.dependent),
            "coupled": [list(group) for group in mobility.coupled],
        },
    }  # fmt: skip


def _limits(m: Model) -> dict[str, list[float | None]]:
    """Return the lower and upper limits of the coordinates that have any."""
    ends = [(link.joint.lower.tolist(), link.joint.upper.tolist()) for link in m.links]
    pairs = [pair for lower, upper in ends for pair in zip(lower, upper, strict=True)]
    limited = {name: pair for name, pair in zip(m.v_names, pairs, strict=True) if np.isfinite(pair).any()}
    return {name: [end if np.isfinite(end) else None for end in pair] for name, pair in limited.items()}


def _largest(m: Model, option: str) -> dict[str, float]:
    """Return the largest efforts or velocities of the coordinates that have one."""
    most = [value for link in m.links for value in getattr(link.joint, f"most_{option}").tolist()]
    return {name: value for name, value in zip(m.v_names, most, strict=True) if np.isfinite(value)}


def _print_facts(console: Console, m: Model, facts: dict[str, Any]) -> None:
    def listed(counts: dict[str, Any]) -> str:
        return ", ".join(f"{kind} {count:,}" for kind, count in counts.items())

    forward = facts["forward_dynamics"]
    options = {name: bodies for name, bodies in facts["options"].items() if bodies}
    speed = m.friction_speed
    over = f"{speed[0]:g} rad/s and {speed[1]:g} m/s" if isinstance(speed, tuple) else f"{speed:g} rad/s or m/s"
    smoothed = f"; friction smoothed over {over}" if "friction" in options else ""
    branches = ", ".join(f"{name} ({count})" for name, count in facts["branches"].items())
    rows = {
        "bodies": str(facts["bodies"]),
        "joints": listed(facts["joints"]),
        "freedom": f"{printing.freedom_text(facts['freedom'])}; nq = {m.nq}, nv = {m.nv}",
        **_mobility_rows(facts),
        "mass": f"{facts['mass']:.6g} kg",
        "gravity": f"{vector_text(m.gravity)} m/s^2",
        "options": (", ".join(f"{name} on {len(bodies)}" for name, bodies in options.items()) or "none") + smoothed,
        "limits": _listed({name: printing.interval_text(*pair) for name, pair in facts["limits"].items()}) or "none",
        **{
            option: _listed({name: f"{most:g}" for name, most in facts[option].items()})
            for option in ("effort", "velocity")
            if facts[option]
        },
        **({"frames": ", ".join(f"{frame.name} (on {frame.body})" for frame in m.frames)} if m.frames else {}),
        "springs": ", ".join(f"{s.name} ({s.a} to {s.b})" for s in m.springs) or "none",
        **({"bushings": ", ".join(f"{b.name} ({b.a} to {b.b})" for b in m.bushings)} if m.bushings else {}),
        **({"contacts": ", ".join(f"{c.name} ({c.body} on {c.against})" for c in m.contacts)} if m.contacts else {}),
        "forces": ", ".join(f"{f.name} ({'on ' + f.body if f.body else 'joint forces'})" for f in (*m.forces, *m.point_forces)) or "none",
        **({"actuators": ", ".join(f"{one.name} (of {', '.join(dict(one.coefficients))})" for one in m.actuators)} if m.actuators else {}),
        "depth": f"{facts['depth']} (joints from the ground to the farthest body)",
        "branches": branches or "none",
        "placements": f"{listed(facts['placements'])} (in canonical frames)",
        "operations": f"{forward['total']:,} for forward dynamics by {forward['method']} ({listed(forward['operations'])})",
    }
    printing.print_title(console, f"{facts['name']}: {facts['description']}")
    printing.print_rows(console, rows)
    if m.notes:
        printing.print_title(console, "\nNotes on the file")
        for note in m.notes:
            console.print(f"- {note}", soft_wrap=True)
    if facts["loops"]:
        told = [(loop["name"], loop["joint"], loop["base"], ", ".join(loop["bodies"]), str(loop["constraints"])) for loop in facts["loops"]]
        columns = ("loop", "closed by", "base", "bodies around it", ">constraints")
        printing.print_table(console, "\nLoops", columns, told, printing.ROWS)
    keys = ("name", "unit", *(["joint"] if m.joint_names else []))
    for title, coordinates in (("\nPositions q", facts["q"]), ("\nVelocities v", facts["v"])):
        cells = [(str(i), *(coordinate.get(key, "") for key in keys)) for i, coordinate in enumerate(coordinates)]
        printing.print_table(console, title, (">index", *keys), cells, printing.ROWS)


def _listed(texts: dict[str, str]) -> str:
    """Return what coordinates have, once where several have the same.

    >>> _listed({"hip": "1", "knee": "2"}), _listed(dict.fromkeys(("hip", "knee", "ankle"), "-1..1"))
    ('hip 1, knee 2', '-1..1 on 3 coordinates')
    """
    if len(texts) > 2 and len({*texts.values()}) == 1:
        return f"{next(iter(texts.values()))} on {len(texts)} coordinates"
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _mobility_rows(facts: dict[str, Any]) -> dict[str, str]:
    """Return the rows of a model that has loops."""
    mobility = facts["mobility"]
    if mobility is None:
        return {}
    sums = {c["name"]: printing.sum_text((x, f"{abs(x):g} {name}") for name, x in c["coefficients"].items()) for c in facts["couplings"]}
    rows = {
        "constraints": f"{mobility['constraints']}, of which {mobility['redundant']} redundant",
        "independent": ", ".join(mobility["independent"]) or "none",
        "dependent": ", ".join(mobility["dependent"]) or "none",
        "couplings": "; ".join(f"{c['name']} ({sums[c['name']]} = {c['offset']:g})" for c in facts["couplings"]),
        "coupled": "; ".join(", ".join(group) for group in mobility["coupled"] if len(group) > 1),
    }
    return {name: text for name, text in rows.items() if text}
