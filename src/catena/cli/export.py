"""`catena export`: kernels as C, CasADi or JAX files."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import catena as ct
from catena.cli import completion
from catena.cli.app import Contact, Debug, FloatingBase, Ignore, Json, ModelName, SetParameter, Tolerance, app
from catena.cli.info import find
from catena.cli.printing import new_console, print_json, print_rows, print_title
from catena.errors import ArgumentError, ExportError
from catena.export.exported import identifier_of, name_of, package
from catena.facade import Model
from catena.model.wording import choice

#: What can be exported, by the name of its kernel.
KERNELS: dict[str, Callable[..., Any]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        ct.forward_dynamics, ct.inverse_dynamics, ct.mass_matrix, ct.bias_force, ct.gravity_force, ct.coriolis_force, ct.passive_force,
        ct.coriolis_matrix, ct.momenta, ct.velocities, ct.hamiltonian_dynamics, ct.energy, ct.poses, ct.jacobian, ct.joint_wrenches,
        ct.loop_error, ct.driving_forces, ct.forward_dynamics_derivatives, ct.inverse_dynamics_derivatives,
    )
}  # fmt: skip


class Target(str, Enum):
    c = "c"
    casadi = "casadi"
    jax = "jax"


_EXPORTS: dict[Target, tuple[Callable[..., Any], tuple[str, ...]]] = {
    Target.c: (ct.export_c, (".h", ".c")),
    Target.casadi: (ct.export_casadi, (".casadi",)),
    Target.jax: (ct.export_jax, (".py",)),
}


@app.command()
def export(
    target: Annotated[Target, typer.Argument(metavar="c|casadi|jax", help="C99, a CasADi function, or a Python module for JAX.")],
    model: ModelName,
    what: Annotated[
        str, typer.Option(metavar="KERNEL", help="Which kernel; an unknown name lists the choices.", autocompletion=lambda: list(KERNELS))
    ] = "forward-dynamics",
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How it is computed, where there is a choice.", autocompletion=completion.methods_or_auto)
    ] = "auto",
    body: Annotated[str | None, typer.Option(metavar="NAME", help="The body of --what jacobian.")] = None,
    point: Annotated[str | None, typer.Option(metavar="X,Y,Z", help="The point of --what jacobian, in the body's frame [m].")] = None,
    actuated: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="The coordinates that motors act on, of --what inverse-dynamics with loops.")
    ] = None,
    plans: Annotated[int | None, typer.Option(metavar="N", min=1, help="The most plans that close the loops; without it all.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name of function and files; without it, model and kernel.")] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write to; it is made, and files in it are replaced.")] = Path("."),
    set_parameter: SetParameter = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    contact: Contact = None,
    tolerance: Tolerance = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a kernel of a model as self-contained C99, as a CasADi function, or as a Python module for JAX.

    The files document the sizes and the order of arguments and results.

    \b
    Examples:
      catena export c arm
      catena export c robot.urdf --floating-base
      catena export c four-bar.toml --what inverse-dynamics --actuated crank --out firmware
      catena export casadi arm --what mass-matrix --method composite-body
      catena export jax humanoid --what energy --name humanoid_energy
    """
    m, _ = find(model, floating_base, ignore, tolerance, set_parameter, contact)
    make = _maker(m, what, method, body, point, actuated)
    if name is not None:
        identifier_of(name)
    if target is not Target.c:
        package(target.value)
    kernel = make()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"--out {out}: cannot be made: {(error.strerror or str(error)).lower()}; name another folder") from None
    write, endings = _EXPORTS[target]
    written = write(kernel, out, name=name, plans=plans)
    known = name_of(kernel, name)
    files = [str(out / f"{known}{ending}") for ending in endings]
    facts = {
        "target": target.value,
        "name": known,
        "model": m.name,
        "kernel": kernel.name,
        "method": kernel.method,
        "inputs": {port.name: list(port.shape) for port in kernel.inputs},
        "outputs": {port.name: list(port.shape) for port in kernel.outputs},
        "operations": kernel.operations,
        "workspace": written.workspace if isinstance(written, ct.CSource) else None,
        "files": files,
    }
    if json:
        print_json(facts)
        return
    console = new_console()
    print_title(console, f"{known}: {kernel.name.replace('_', ' ')} of {m.name}")
    rows = {"arguments": kernel.signature, "method": kernel.method, "operations": f"{sum(kernel.operations.values()):,}"}
    rows |= {} if facts["workspace"] is None else {"workspace": f"{facts['workspace']:,}"}
    print_rows(console, {key: value for key, value in rows.items() if value} | {"written": ", ".join(files)})


def _maker(m: Model, what: str, method: str, body: str | None, point: str | None, actuated: str | None) -> Callable[[], Any]:
    """Return a function that makes the kernel; options that it does not take are refused."""
    if what not in KERNELS:
        raise ArgumentError(f"--what {what}: there is no such kernel; {choice(what, KERNELS)}")
    make = KERNELS[what]
    given: dict[str, Any] = {
        "method": None if method == "auto" else method,
        "body": body,
        "point": None if point is None else _numbers(point),
        "actuated": None if actuated is None else [part.strip() for part in actuated.split(",")],
    }
    takes = inspect.signature(make).parameters
    options = {key: value for key, value in given.items() if value is not None}
    for key in options:
        if key not in takes:
            fit = ", ".join(other for other, known in KERNELS.items() if key in inspect.signature(known).parameters)
            raise ArgumentError(f"--{key}: {what} does not take it, only {fit}; leave it out")
    if "body" in takes and body is None:
        raise ArgumentError(f"--what {what} needs a body; choose one by --body from {', '.join(m.body_names)}")
    return lambda: make(m, **options)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(f"--point {text}: give three numbers, such as 0,0,0.1") from None
