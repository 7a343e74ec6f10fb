"""Linearisation of a mechanism about a state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.analysis.neighbourhood import Neighbourhood
from catena.errors import ArgumentError
from catena.graph.differentiated import tangent_graph
from catena.kernels.named_coordinates import coordinates
from catena.kernels.tracing import charts, check_forces, frozen
from catena.model import Mechanism
from catena.model.values import floats
from catena.simulation.arguments import check_state
from catena.simulation.inputs import controller_role


@dataclass(frozen=True, eq=False)
class Linearization:
    """A linear system dx/dt = A x + B u about a state; of a step, x[k + 1] = A x[k] + B u[k]. `A, B = linearization` unpacks it.

    x are changes of the independent positions, named by `names`, then of their rates: those of `vdot` itself, which is zero where the state
    is an equilibrium, come on top. u are changes of the joint forces on `inputs`. All changes keep loops closed: `basis` (nv, independent)
    gives those of all coordinates from the independent ones.
    """

    A: np.ndarray
    B: np.ndarray
    names: tuple[str, ...]
    inputs: tuple[str, ...]
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    vdot: np.ndarray
    basis: np.ndarray
    step: float | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.A, self.B))

    @property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of A [1/s], the least damped first; of a step, by their size, the largest first."""
        found: Any = np.linalg.eigvals(self.A)
        return found[np.lexsort((-found.imag, -(found.real if self.step is None else np.abs(found))))]

    def __repr__(self) -> str:
        about = "dx/dt = A x + B u" if self.step is None else f"x[k + 1] = A x[k] + B u[k], steps of {self.step:g} s"
        return f"<Linearization {about}: x of {', '.join(self.names)} and their rates, u of {', '.join(self.inputs)}>"


def linearize(
    m: Mechanism,
    q: Any,
    v: Any = None,
    tau: Any = None,
    *,
    t: float = 0.0,
    actuated: Collection[str] | None = None,
    controller: Callable[[Any, Any, Any], Any] | None = None,
    step: float | None = None,
) -> Linearization:
    """Return the linear system about a state: changes of positions and velocities under changes of the joint forces.

    `actuated` names the coordinates that the inputs act on, without it all. With a `controller` (t, q, v) -> tau, which is traced, the
    system has its feedback in A, and tau is what it gives at the state. With a `step` [s] the system is discrete: the exact solution for
    inputs that are held over the step. With loops the state is that of the independent coordinates; those of `actuated` are taken first.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y", damping=0.5))
    >>> A, B = ct.linearize(m, [0.0])
    >>> A
    array([[ 0.  ,  1.  ],
           [-9.81, -0.5 ]])
    >>> B
    array([[0.],
           [1.]])
    """
    m = frozen(m, "linearize")
    check_forces(m, "linearize")
    position, velocity = check_state(m, q, v, ("q", "v"))
    inputs = coordinates(m, m.v_names if actuated is None else actuated, "linearize: actuated")
    if controller is not None and tau is not None:
        raise ArgumentError("linearize: both tau and controller are given; give one")
    force = joint_forces(m, tau)
    near = Neighbourhood(m, position, velocity, t, inputs if actuated is not None else ())
    N, own = near.basis, near.independent
    gains = np.zeros((2, m.nv, len(own)))
    if controller is not None:
        force, gains = _feedback(m, controller, near)
    vdot, by_q, by_v, by_tau = near.accelerations(force)
    A = linear_system(near, by_q + by_tau @ gains[0], by_v + by_tau @ gains[1])
    B = np.concatenate([np.zeros((len(own), len(inputs))), by_tau[np.ix_(own, inputs)]])
    if step is not None:
        A, B = _held(A, B, step)
    names = tuple(m.v_names[i] for i in inputs)
    return Linearization(A, B, near.names, names, position, velocity, force, vdot, N, step)


def joint_forces(m: Mechanism, tau: Any) -> np.ndarray:
    """Return joint forces that a user gives as an array, zero where there are none."""
    force = np.zeros(m.nv) if tau is None else floats("tau", tau, f"give {m.nv} joint forces")
    if force.shape != (m.nv,):
        raise ArgumentError(f"tau has shape {force.shape}; model '{m.name}' takes {m.nv} joint forces")
    return force


def linear_system(near: Neighbourhood, by_q: np.ndarray, by_v: np.ndarray) -> np.ndarray:
    """Return A about a state, of the derivatives of accelerations along independent positions and rates."""
    own = near.independent
    return np.block([[near.turning, np.eye(len(own))], [by_q[own], by_v[own]]])


def _held(A: np.ndarray, B: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the system over a step of time, with inputs held."""
    from scipy.linalg import expm

    if not (isinstance(step, (int, float)) and np.isfinite(step) and step > 0.0):
        raise ArgumentError(f"linearize: step = {step!r} is not a positive time; give the seconds of a step")
    n, k = B.shape
    whole = expm(np.block([[A, B], [np.zeros((k, n + k))]]) * step)
    return whole[:n, :n], whole[:n, n:]


def _feedback(m: Mechanism, controller: Callable[[Any, Any, Any], Any], near: Neighbourhood) -> tuple[np.ndarray, np.ndarray]:
    """Return what a controller gives at a state, and how that changes along independent positions and rates."""
    graph = controller_role(m, marked=False).graph(m.bound(controller))
    tangent = tangent_graph(graph, ("q", "v"), charts(m))
    N, state = near.basis.T, (near.t, near.q, near.v)
    tau, by_q = tangent.evaluate(*state, N, near.bend.T)
    _, by_v = tangent.evaluate(*state, np.zeros(m.nv), N)
    return tau[0], np.stack([by_q.T, by_v.T])
