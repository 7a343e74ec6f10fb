"""What of a kernel goes out: its graphs, one for each plan where there are loops, under a name; and what does not go out, and why."""

from __future__ import annotations

import keyword
import re
from dataclasses import replace
from typing import Any, NamedTuple

from catena.errors import ExportError, optional_package
from catena.graph import Graph, LinearSystem, Port, SaddlePoint, Subgraph
from catena.kernels.iterative import IterativeKernel
from catena.kernels.planned import ConstrainedKernel
from catena.kernels.state_flags import BREAKING, OPEN, OPENING, SINGULAR, WEAK

#: What the flags of a state of a mechanism with loops mean, by name.
FLAGS: dict[str, tuple[int, str]] = {
    "OPEN": (OPEN, "q does not close the loops"),
    "OPENING": (OPENING, "v would open the loops"),
    "BREAKING": (BREAKING, "vdot would open the loops"),
    "WEAK": (WEAK, "no plan holds the loops well here; digits are lost"),
    "SINGULAR": (SINGULAR, "the constraints lose rank here; the result is not determined"),
}

#: Flags of a state that no other plan can mend.
REFUSED = OPEN | OPENING | BREAKING

_C_WORDS = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float", "for", "goto", "if",
    "inline", "int", "long", "main", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while",
))  # fmt: skip


class Exported(NamedTuple):
    """A kernel on its way out. With loops there is a graph for every plan, to be tried in turn, whose last output are the flags."""

    name: str
    problem: str
    model: str
    method: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    labels: dict[str, tuple[str, ...]]
    graphs: tuple[Graph, ...]
    flagged: bool

    @property
    def title(self) -> str:
        model = f" of model '{self.model}'" if self.model else ""
        method = f", by {self.method}" if self.method else ""
        return " ".join(f"{self.problem.replace('_', ' ')}{model}{method}".split())

    @property
    def origin(self) -> str:
        from catena.version import __version__  # here, because looking it up takes long

        return f"Written by catena {__version__}."


def exported(kernel: Any, name: str | None = None, plans: int | None = None) -> Exported:
    """Return what of a kernel goes out, or say why it cannot; `plans` is how many plans of a mechanism with loops do at most."""
    if isinstance(kernel, IterativeKernel):
        raise ExportError(
            f"{kernel.name} by {kernel.method} iterates until it converges, and only kernels without iterations can be exported; "
            "make it with another method, such as method='auto'"
        )
    if plans is not None and (not isinstance(plans, int) or plans < 1):
        raise ExportError(f"plans is {plans!r}; give a whole number from 1 on, or None for all that the kernel has")
    if isinstance(kernel, ConstrainedKernel):
        graphs = kernel.graphs(plans)
        flagged = kernel.has_loops
        if not flagged:  # the flags, the last output, are 0
            graphs = tuple(replace(graph, outputs=graph.outputs[:-1], results=graph.results[:-1]).drop_dead() for graph in graphs)
    elif isinstance(getattr(kernel, "graph", None), Graph):
        graphs, flagged = (kernel.graph,), False
    else:
        raise ExportError(f"{kernel!r} is not a kernel; export what ct.forward_dynamics(m), ct.mass_matrix(m), … return")
    if any(_pivots(graph) for graph in graphs):
        raise ExportError(
            f"{kernel.name} by {kernel.method} solves equations with pivots that are chosen at run time, which cannot be exported; "
            "export a kernel for a plan, or a step of an explicit integrator, such as 'rk4'"
        )
    return Exported(
        name_of(kernel, name), kernel.name, kernel.model, kernel.method, kernel.inputs, kernel.outputs, kernel.labels, graphs, flagged
    )


def _pivots(graph: Graph) -> bool:
    """Return whether equations are solved with pivots that are chosen at run time."""
    systems = {node[0] for node in graph.nodes if not isinstance(node[0], str)}
    return any(isinstance(op, SaddlePoint | LinearSystem) or (isinstance(op, Subgraph) and _pivots(op.graph)) for op in systems)


def name_of(kernel: Any, name: str | None = None) -> str:
    """Return the name under which a kernel goes out: that given, or else made of the model and the problem.

    >>> name_of(ct.energy(examples.four_bar()))
    'four_bar_energy'
    """
    return identifier(f"{kernel.model} {kernel.name}") if name is None else identifier_of(name)


def identifier_of(name: Any) -> str:
    """Return a name that was given, if C and Python take it."""
    if not isinstance(name, str) or identifier(name) != name:
        raise ExportError(f"{name!r} is not a name for C and Python; give letters, digits and underscores, a letter first, such as 'arm_1'")
    return name


def identifier(text: str) -> str:
    """Return a text as a name that C and Python take.

    >>> identifier("2 bars"), identifier("for"), identifier("Kurbel-Ö")
    ('catena_2_bars', 'catena_for', 'Kurbel')
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text.strip()).strip("_") if not re.fullmatch(r"[A-Za-z]\w*", text, re.ASCII) else text
    if plain[:1].isalpha() and plain not in _C_WORDS and not keyword.iskeyword(plain):
        return plain
    return f"catena_{plain}".rstrip("_")


def argument_names(ports: tuple[Port, ...], taken: tuple[str, ...] = ()) -> list[str]:
    """Return names for arguments, each used once, none of those taken, and none that values inside have (x and a number).

    >>> argument_names((Port("x", ()), Port("x", ()), Port("a b", ())))
    ['x', 'x_1', 'a_b']
    """
    names: list[str] = []
    for port in ports:
        plain = name = identifier(port.name)
        k = 0
        while name in (*taken, *names) or re.fullmatch(r"x\d+", name):
            k += 1
            name = f"{plain}_{k}"
        names.append(name)
    return names


def package(name: str) -> Any:
    """Return an optional package that has an extra of its name."""
    return optional_package(name, f"export to {name} needs {name}", f'pip install "catena[{name}]"')
