"""The algorithms of the papers, on any scalar, one module each.

`METHODS` says which problem each method solves: a problem is a name such as `forward_dynamics`, a solution a function of the tree and the
state. `derivatives/tangents` has the dynamics whose graph is differentiated; another method of these may take its place. Methods answer to
the field's short names too, `aba`, `rnea` and `crba` (`ALIASES`). `wrenches`, wherever a function takes them, act on the bodies: one
(moment, force) for each body in its frame, at its origin, or None; last the ground's.

Forward dynamics comes in the three classes of [J91]: `cubic` goes through the mass matrix, `quadratic` through its products or its
triangular factors, `linear` is recursive throughout. `mass` and `inverse` have the mass matrix and inverse dynamics, `derivatives` the
derivatives of the dynamics, `loops` the constraints of loops and the coordinates that they determine. Beside them is what they share: the
motion of the bodies (`kinematics`), inertias of bodies together (`inertias`), forces (`joint_forces`, `applied_forces`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from catena.formulations import cubic, inverse, linear, mass, quadratic  # noqa: F401  the classes, in the order of the paper
from catena.formulations.cubic import composite_body
from catena.formulations.derivatives import articulated, through_mass_matrix
from catena.formulations.derivatives import inverse_dynamics as inverse_derivatives
from catena.formulations.inverse import composite_inverse, coriolis, newton_euler
from catena.formulations.linear import (
    armstrong,
    articulated_body,
    canonical_momenta,
    coordinate_reduction,
    cut_joints,
    denoc,
    fully_recursive,
    platform_structure,
)
from catena.formulations.mass import composite_body as composite_mass
from catena.formulations.mass import direct, one_frame, symmetric
from catena.formulations.quadratic import conjugate_gradient, innovations

#: Coordinates up to which derivatives go through the factors of the mass matrix: 45 take 46 s to compile, 30 take 7 s.
FACTORED = 40


class Closes(NamedTuple):
    """How a method closes loops, by a plan for a configuration: forward dynamics, and the projection of states.

    Without a projection of its own, the coordinates that depend in the plan are solved for (`loops.projection`).
    """

    forward_dynamics: Callable[..., Any]
    project: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Method:
    """A method: what it solves, by which functions, after which references, at which cost.

    `unsuitable` returns why a tree does not fit the method, or nothing. A method that `iterates` branches on values and cannot be traced,
    but for the parts that are named here: the product with a matrix, and its preconditioner, as functions of tree, q and a vector. A method
    that `closes` loops says how.
    """

    solves: dict[str, Callable[..., Any]]
    references: tuple[str, ...]
    cost: str | dict[str, str]  # of all problems, or by problem
    unsuitable: Callable[[Any], str] | None = None
    iterates: tuple[Callable[..., Any], ...] = ()
    closes: Closes | None = None

    def order(self, problem: str) -> str:
        """Return how the cost of a problem grows with the number of bodies."""
        return self.cost if isinstance(self.cost, str) else self.cost[problem]

    @property
    def general(self) -> bool:
        """Whether the method fits every tree, and can be traced."""
        return self.unsuitable is None and not self.iterates

    def why_unsuitable(self, tree: Any) -> str:
        """Return why a tree does not fit the method, or nothing."""
        return "" if self.unsuitable is None else self.unsuitable(tree)


def _joints_of_screws(tree: Any) -> str:
    """Return why a tree does not fit derivatives along joints, or nothing."""
    return f"joints must be made of screws, and that of '{tree.custom[0]}' is a function" if tree.custom else ""


def _few_joints_of_screws(tree: Any) -> str:
    """Return why a tree does not fit derivatives through the factors of the mass matrix, or nothing."""
    many = f"code grows with the cube of the coordinates: there may be {FACTORED}, and there are {tree.nv}" if tree.nv > FACTORED else ""
    return _joints_of_screws(tree) or many


def _fully_recursive(reference: str) -> Method:
    functions = (fully_recursive.forward_dynamics, cut_joints.forward_dynamics, cut_joints.project)
    solve, close, project = (partial(function, reference=reference) for function in functions)
    return Method({"forward_dynamics": solve}, ("KY03",), "O(n)", closes=Closes(close, project))


#: All methods, by name; their short names are in `ALIASES`.
METHODS: dict[str, Method] = {
    "newton-euler": Method(
        {
            "inverse_dynamics": newton_euler.inverse_dynamics,
            "bias_force": newton_euler.bias_force,
            "gravity_force": newton_euler.gravity_force,
            "coriolis_force": newton_euler.coriolis_force,
            "momenta": newton_euler.momenta,
        },
        ("J91",),
        "O(n)",
    ),
    "composite-inverse": Method({"inverse_dynamics": composite_inverse.inverse_dynamics}, ("J91",), "O(n)"),
    "composite-coriolis": Method({"coriolis_matrix": coriolis.coriolis_matrix}, ("EW21",), "O(n^2)"),
    "direct": Method({"mass_matrix": direct.mass_matrix}, ("J91",), "O(n^2)"),
    "symmetric": Method({"mass_matrix": symmetric.mass_matrix}, ("J91",), "O(n^2)"),
    "composite-body": Method(
        {"mass_matrix": composite_mass.mass_matrix, "forward_dynamics": composite_body.forward_dynamics},
        ("J91",),
        {"mass_matrix": "O(n^2)", "forward_dynamics": "O(n^3)"},
    ),
    "composite-body/one-frame": Method({"mass_matrix": one_frame.mass_matrix}, ("J91",), "O(n^2)"),
    "conjugate-gradient": Method(
        {"forward_dynamics": conjugate_gradient.forward_dynamics}, ("J91",), "O(n^2)", iterates=(conjugate_gradient.product,)
    ),
    "conjugate-gradient/block-diagonal": Method(
        {"forward_dynamics": partial(conjugate_gradient.forward_dynamics, preconditioner=conjugate_gradient.precondition)},
        ("J91",),
        "O(n^2)",
        iterates=(conjugate_gradient.product, conjugate_gradient.precondition),
    ),
    "conjugate-gradient/articulated": Method(
        {"forward_dynamics": partial(conjugate_gradient.forward_dynamics, preconditioner=conjugate_gradient.articulated)},
        ("J91",),
        "O(n^2)",
        iterates=(conjugate_gradient.product, conjugate_gradient.articulated),
    ),
    "innovations": Method({"forward_dynamics": innovations.forward_dynamics}, ("J91",), "O(n^2)"),
    "articulated-body": Method({"forward_dynamics": articulated_body.forward_dynamics}, ("J91",), "O(n)"),
    "canonical-momenta": Method(
        {
            "forward_dynamics": canonical_momenta.forward_dynamics,
            "hamiltonian_dynamics": canonical_momenta.hamiltonian_dynamics,
            "velocities": canonical_momenta.velocities,
        },
        ("NLT03",),
        "O(n)",
    ),
    "armstrong": Method({"forward_dynamics": armstrong.forward_dynamics}, ("J91",), "O(n)", unsuitable=armstrong.requirement),
    "coordinate-reduction": Method(
        {"forward_dynamics": coordinate_reduction.tree_dynamics},
        ("CA03",),
        "O(n)",
        closes=Closes(coordinate_reduction.forward_dynamics),
    ),
    "denoc": Method(
        {"forward_dynamics": denoc.forward_dynamics},
        ("SS01",),
        "O(n)",
        unsuitable=platform_structure.requirement,
        closes=Closes(denoc.forward_dynamics, denoc.project),
    ),
    "fully-recursive/centroid": _fully_recursive("centroid"),
    "fully-recursive/joint": _fully_recursive("joint"),
    "fully-recursive/origin": _fully_recursive("origin"),
    "derivatives/articulated": Method(
        {"forward_dynamics_derivatives": articulated.forward_dynamics_derivatives},
        ("SRW22", "J91"),
        "O(n^2)",
        unsuitable=_joints_of_screws,
    ),
    "derivatives/mass-matrix": Method(
        {"forward_dynamics_derivatives": through_mass_matrix.forward_dynamics_derivatives},
        ("CM18", "SRW22"),
        "O(n^3)",
        unsuitable=_few_joints_of_screws,
    ),
    "derivatives/composite": Method(
        {"inverse_dynamics_derivatives": inverse_derivatives.inverse_dynamics_derivatives},
        ("SRW22",),
        "O(n^2)",
        unsuitable=_joints_of_screws,
    ),
    "derivatives/tangents": Method(
        {
            "forward_dynamics_derivatives": articulated_body.forward_dynamics,
            "inverse_dynamics_derivatives": newton_euler.inverse_dynamics,
        },
        ("GW08",),
        "O(n^2)",
    ),
}

#: Short names of methods, as the field has them; `kernels.methods.solution` resolves them.
ALIASES: dict[str, str] = {"aba": "articulated-body", "rnea": "newton-euler", "crba": "composite-body"}

#: What `method="auto"` takes.
AUTO: dict[str, str] = {
    "forward_dynamics": "articulated-body",
    "inverse_dynamics": "newton-euler",
    "mass_matrix": "composite-body",
    "bias_force": "newton-euler",
    "gravity_force": "newton-euler",
    "coriolis_force": "newton-euler",
    "coriolis_matrix": "composite-coriolis",
    "momenta": "newton-euler",
    "hamiltonian_dynamics": "canonical-momenta",
    "velocities": "canonical-momenta",
    "forward_dynamics_derivatives": "derivatives/articulated",
    "inverse_dynamics_derivatives": "derivatives/composite",
}
