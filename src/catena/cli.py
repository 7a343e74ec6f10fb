"""The command `catena`: a demonstration, and what a model is made of."""

from __future__ import annotations

import io
import json as json_module
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

import catena as ct
from catena.errors import CatenaError, ModelError
from catena.examples import EXAMPLES
from catena.model import Model
from catena.spatial import Screw

#: States of a batch, and runs of which the fastest counts, when times are taken.
BATCH, REPEATS = 10_000, 15

#: Rows of coordinates that `info` prints.
ROWS = 60

NEXT = """\
import catena as ct
from catena.examples import arm
print(ct.forward_dynamics(arm())([0.3] * 7, [0.0] * 7, [0.0] * 7))"""


class _Group(TyperGroup):
    """Prints the errors and warnings of catena as one line each."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no reason to stop
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: typer.echo(f"warning: {_one_line(message)}", err=True)
            try:
                return super().invoke(ctx)
            except CatenaError as error:
                if ctx.meta.get("debug"):
                    raise
                typer.echo(f"error: {_one_line(error)}", err=True)
                raise typer.Exit(1) from None


def _one_line(message: Any) -> str:
    return " ".join(str(message).split())


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    if value:
        ctx.meta["debug"] = True
    return value


def _version(value: bool) -> None:
    if value:
        typer.echo(f"catena {ct.__version__}")
        raise typer.Exit()


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug, is_eager=True)]


@app.callback()
def main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)] = False,
    debug: Debug = False,
) -> None:
    """Recursive multibody dynamics: equations of motion as compiled NumPy functions.

    \b
    Examples:
      catena demo                 build a 7-joint arm, check and time its dynamics
      catena info                 list the built-in examples
      catena info humanoid        what a built-in example is made of
      catena info arm.toml        what a model file describes
      catena info arm.toml --json the same for programs
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


# demo ---------------------------------------------------------------------------------------------------------------------------------


@app.command()
def demo(debug: Debug = False) -> None:
    """Build a 7-joint arm; compare its methods, count their operations and take their times.

    Takes a few seconds. Example: catena demo
    """
    console = _console()
    m = EXAMPLES["arm"]()
    console.print(f"catena {ct.__version__}, demonstration\n")
    _title(console, f"The model '{m.name}': {len(m.links)} bodies, {m.nv} degrees of freedom, {_mass(m):.1f} kg")
    console.print(_topology(m, console))

    kernels = {
        "forward dynamics, articulated-body": ct.forward_dynamics(m, "articulated-body"),
        "forward dynamics, composite-body": ct.forward_dynamics(m, "composite-body"),
        "inverse dynamics, newton-euler": ct.inverse_dynamics(m, "newton-euler"),
        "mass matrix, composite-body": ct.mass_matrix(m, "composite-body"),
    }
    rng = np.random.default_rng(0)
    states = 1000
    q = np.array([m.random(rng) for _ in range(states)])
    v, tau = rng.normal(size=(2, states, m.nv))
    articulated, composite, newton_euler, mass = kernels.values()
    vdot = articulated(q, v, tau)
    checks = {
        "articulated-body and composite-body give the same accelerations": (vdot, composite(q, v, tau)),
        "newton-euler gives back the joint forces behind the accelerations": (tau, newton_euler(q, v, vdot)),
        "M vdot + bias force gives back the joint forces, too": (tau, (mass(q) @ vdot[..., None])[..., 0] + ct.bias_force(m)(q, v)),
    }
    _title(console, f"\nAgreement over {states:,} random states, relative to the largest entry")
    table = _table("check", ">difference")
    for check, (a, b) in checks.items():
        table.add_row(check, f"{_disagreement(a, b):.1e}")
    console.print(table)

    _title(console, "\nOperations for one state")
    kinds = list(dict.fromkeys(kind for kernel in kernels.values() for kind in kernel.operations))
    table = _table("kernel", *(f">{kind}" for kind in kinds), ">total")
    for name, kernel in kernels.items():
        counts = [kernel.operations.get(kind, 0) for kind in kinds]
        table.add_row(name, *(f"{count:,}" for count in counts), f"{sum(counts):,}")
    console.print(table)

    _title(console, f"\nTimes on one core, smallest of {REPEATS} runs; a batch is {BATCH:,} states")
    table = _table("kernel", ">trace", ">compile", ">one state", ">in a batch")
    batches = [np.tile(x, (BATCH // states, 1)) for x in (q, v, tau)]
    for name, kernel in kernels.items():
        arguments = batches[: len(kernel.inputs)]
        one = [x[0] for x in arguments]
        single = _seconds(lambda kernel=kernel, one=one: [kernel(*one) for _ in range(500)]) / 500
        batch = _seconds(lambda kernel=kernel, arguments=arguments: kernel(*arguments)) / BATCH
        traced = kernel.seconds["trace"]
        compiled = "from cache" if kernel.cached else f"{sum(kernel.seconds.values()) - traced:.2f} s"
        table.add_row(name, f"{traced:.2f} s", compiled, f"{1e6 * single:.2f} us", f"{1e6 * batch:.3f} us")
    console.print(table)

    _title(console, "\nTry next, in Python")
    console.print(NEXT, soft_wrap=True)
    console.print("\nand on the command line: catena info humanoid")


def _disagreement(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference between two batches of vectors, relative to the largest entry of each."""
    return float((np.abs(a - b).max(axis=-1) / np.abs(a).max(axis=-1)).max())


def _seconds(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the smallest time that a call took."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


# info ---------------------------------------------------------------------------------------------------------------------------------


@app.command()
def info(
    model: Annotated[str | None, typer.Argument(metavar="FILE|EXAMPLE", help="A model file (.toml) or a built-in example.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Tell what a model is made of: bodies, joints, coordinates, options, cost.

    Without an argument, list the built-in examples. Examples: catena info arm; catena info arm.toml --json
    """
    console = _console()
    if model is None:
        rows = {name: (make(), _description(make)) for name, make in EXAMPLES.items()}
        if json:
            listed = [{"name": name, "bodies": len(m.links), "nq": m.nq, "nv": m.nv, "description": d} for name, (m, d) in rows.items()]
            typer.echo(json_module.dumps(listed, indent=2))
            return
        table = _table("example", ">bodies", ">nv", "what it is")
        for name, (m, description) in rows.items():
            table.add_row(name, str(len(m.links)), str(m.nv), description)
        console.print(table)
        console.print("\nSee one with: catena info EXAMPLE")
        return
    m, description = _find(model)
    facts = {"name": m.name, "description": description, **_facts(m)}
    if json:
        typer.echo(json_module.dumps(facts, indent=2))
    else:
        _print_facts(console, m, facts)


def _find(name: str) -> tuple[Model, str]:
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
        "mass": _mass(m),
        "gravity": list(m.gravity),
        "friction_speed": m.friction_speed,
        "options": {name: [link.name for link in m.links if any(getattr(link.joint, name))] for name in options},
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
        "gravity": f"{_vector(m.gravity)} m/s^2",
        "options": (", ".join(f"{name} on {len(bodies)}" for name, bodies in options.items()) or "none") + smoothed,
        "depth": f"{facts['depth']} (joints from the ground to the farthest body)",
        "branches": branches or "none",
        "placements": f"{listed(facts['placements'])} (in canonical frames)",
        "operations": f"{forward['total']:,} for forward dynamics by {forward['method']} ({listed(forward['operations'])})",
    }
    _title(console, f"{facts['name']}: {facts['description']}")
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in rows.items():
        table.add_row(key, value)
    console.print(table)
    for title, coordinates in (("\nPositions q", facts["q"]), ("\nVelocities v", facts["v"])):
        _title(console, title)
        table = _table(">index", "name", "unit")
        for i, coordinate in enumerate(coordinates[:ROWS]):
            table.add_row(str(i), coordinate["name"], coordinate["unit"])
        console.print(table)
        if len(coordinates) > ROWS:
            console.print(f"and {len(coordinates) - ROWS} more; --json lists all")


# printing -----------------------------------------------------------------------------------------------------------------------------


def _console() -> Console:
    # names are printed as they are: no markup, emoji or guessed colours
    return Console(highlight=False, markup=False, emoji=False)


def _title(console: Console, text: str) -> None:
    console.print(text, style="bold")


def _table(*columns: str) -> Table:
    """Return an empty table; a column that begins with > is aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        number = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if number else "left", no_wrap=number, overflow="fold")
    return table


def _topology(m: Model, console: Console) -> Table:
    """Return the tree of bodies with their joints and coordinates."""
    table = _table("body", "joint", "axis", "q", "v")
    table.add_row("ground")
    rows = {link.name: (link.joint, at_q, at_v) for link, at_q, at_v in m._slices()}
    for guide, name in _outline(m, "ground", "", console.options.ascii_only):
        joint, at_q, at_v = rows[name]
        axes = [_axis(getattr(joint, key)) for key in ("axis", "axis1", "axis2") if hasattr(joint, key)]
        table.add_row(guide + name, joint.kind, ", ".join(axes), _range(at_q), _range(at_v))
    return table


def _outline(m: Model, root: str, indent: str, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """Yield the bodies outward from a root, each with the guide lines that lead to it."""
    children = [link.name for link in m.links if link.parent == root]
    for name in children:
        last = name == children[-1]
        fork, through = ("`- " if last else "+- ", "|  ") if ascii_only else ("└─ " if last else "├─ ", "│  ")
        yield indent + fork, name
        yield from _outline(m, name, indent + ("   " if last else through), ascii_only)


def _axis(axis: tuple[float, float, float]) -> str:
    letters = [f"{'-' if x < 0 else ''}{letter}" for letter, x in zip("xyz", axis, strict=True) if x]
    return letters[0] if len(letters) == 1 else _vector(axis)


def _vector(entries: tuple[float, ...]) -> str:
    return f"({', '.join(f'{x:.4g}' for x in entries)})"


def _range(at: slice) -> str:
    return "" if at.start == at.stop else str(at.start) if at.stop == at.start + 1 else f"{at.start}..{at.stop - 1}"


def _mass(m: Model) -> float:
    return sum(link.body.mass for link in m.links)


if __name__ == "__main__":
    app()
