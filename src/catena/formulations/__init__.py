"""The algorithms of the papers, one module each, on any scalar.

`METHODS` says which problem each method solves: a problem is a name such as `forward_dynamics`, a solution a function of the tree and the
state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from catena.formulations import articulated_body, composite_body, newton_euler


@dataclass(frozen=True)
class Method:
    """A method: what it solves, by which functions, after which reference, at which cost."""

    solves: dict[str, Callable[..., Any]]
    reference: str
    cost: str


METHODS: dict[str, Method] = {
    "newton-euler": Method(
        {"inverse_dynamics": newton_euler.inverse_dynamics, "bias_force": newton_euler.bias_force, "momenta": newton_euler.momenta},
        "J91",
        "O(n)",
    ),
    "composite-body": Method(
        {"mass_matrix": composite_body.mass_matrix, "forward_dynamics": composite_body.forward_dynamics}, "J91", "O(n^2), O(n^3)"
    ),
    "articulated-body": Method({"forward_dynamics": articulated_body.forward_dynamics}, "J91", "O(n)"),
}

#: What `method="auto"` takes.
AUTO: dict[str, str] = {
    "forward_dynamics": "articulated-body",
    "inverse_dynamics": "newton-euler",
    "mass_matrix": "composite-body",
    "bias_force": "newton-euler",
    "momenta": "newton-euler",
}
