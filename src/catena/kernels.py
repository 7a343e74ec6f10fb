"""The doors: a model and a method in, a compiled kernel out.

Each function traces its formulation on the model's tree, compiles the graph and returns a `Kernel`. What acts by itself, in the joints
(springs, dampers, friction, stops) and on the bodies (springs, forces from functions), is added here, so that the formulations deal with
joint forces and wrenches only. Where a force depends on time, the kernels that it enters take t as their first argument.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from catena.assembly import loop_owners, loop_units
from catena.constrained import DEPENDENT, OPEN, OPENING, ConstrainedKernel
from catena.errors import ModelError
from catena.formulations import METHODS
from catena.formulations.applied_forces import applied_forces
from catena.formulations.constraints import apart, constraint_jacobian
from catena.formulations.frames import jacobian as _jacobian
from catena.formulations.frames import poses as _poses
from catena.formulations.inverse import newton_euler
from catena.formulations.joint_forces import energy as _energy
from catena.formulations.joint_forces import passive_force
from catena.graph import Trace
from catena.graph.functions import maximum, where
from catena.graph.stages import split
from catena.iterative import IterativeKernel
from catena.model import Model, Tree
from catena.model.values import array
from catena.native import Kernel, compile_graph
from catena.references import REFERENCES
from catena.registry import solution

#: States whose loops are open by more than this, relative to the mechanism's size or in radians, are refused; and velocities that open them
#: at such a rate, relative to the speed of the joints.
LOOSE = 1e-6

#: Constraints that are less independent than this of the others chosen are exchanged: the square of a sine.
WEAK = 1e-8


def _kernel(
    m: Model,
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    function: Callable[..., Any],
    method: str = "",
    references: tuple[str, ...] = (),
) -> Kernel:
    """Return the kernel of `function(tree, *inputs)`, traced and compiled."""
    _check_model(m, name)
    tree = m.tree()
    shapes = {"t": (), "q": (m.nq,)}
    started = time.perf_counter()
    trace = Trace(name)
    arguments = [trace.input(i, shapes.get(i, (m.nv,))) for i in inputs]
    results = function(tree.marked(trace.mark, trace.solve), *arguments)
    graph = trace.graph(**dict(zip(outputs, results if isinstance(results, tuple) else (results,), strict=True)))

    def eager(*arrays: Any) -> Any:
        return function(tree, *(np.asarray(x, dtype=float) for x in arrays))

    seconds = time.perf_counter() - started
    return compile_graph(graph, method=method, references=references, trace_seconds=seconds, function=eager)


def _check_model(m: Model, name: str) -> None:
    if not isinstance(m, Model):
        raise ModelError(f"{name}: {m!r} is not a model; give a ct.Model")


def _check_tree(m: Model, name: str) -> None:
    if m.has_loops:
        raise ModelError(f"{name}: model '{m.name}' has loops, which hold joint forces of their own; use ct.forward_dynamics")


def _dynamics_kernel(
    m: Model, name: str, inputs: tuple[str, ...], outputs: str | tuple[str, ...], function: Callable[..., Any], method: str,
    references: tuple[str, ...],
) -> Kernel:  # fmt: skip
    """Return the kernel of `function(tree, *inputs, force, wrenches)`, with what acts in the joints and on the bodies."""
    _check_model(m, name)
    for force in m.python_forces:
        raise ModelError(
            f"{name}: force '{force.name}' is marked ct.python, and a compiled kernel cannot call it; use it in ct.simulate, "
            "or give a function that can be traced, without the mark"
        )
    timed = m.time_dependent

    def acting(tree: Tree, *arguments: Any) -> Any:
        t, q, v, *rest = arguments if timed else (0.0, *arguments)
        force, wrenches = applied_forces(tree, t, q, v)
        return function(tree, q, v, *rest, passive_force(tree, q, v) + force, wrenches)

    return _kernel(
        m, name, ("t", *inputs) if timed else inputs, (outputs,) if isinstance(outputs, str) else outputs, acting, method, references
    )


def forward_dynamics(m: Model, method: str = "auto") -> Kernel | IterativeKernel | ConstrainedKernel:
    """Return the kernel (q, v, tau) -> vdot: the accelerations of the mechanism under joint forces tau.

    Gravity, the joints' own springs, dampers, friction and stops, and the model's springs and forces act in addition to tau. Where a
    force depends on time (`m.time_dependent`), the kernel is (t, q, v, tau) -> vdot.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.forward_dynamics(m)([0.0], [0.0], [0.0])
    array([9.81])
    """
    _check_model(m, "forward_dynamics")
    name, described, solve, references = solution("forward_dynamics", method, m)
    if METHODS[name].iterates:
        return _iterative(m, name, references)
    if m.has_loops:
        return _constrained(m, name, described, references)

    def function(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        return solve(tree, q, v, tau + force, wrenches)

    return _dynamics_kernel(m, "forward_dynamics", ("q", "v", "tau"), "vdot", function, described, references)


def _iterative(m: Model, method: str, references: tuple[str, ...]) -> IterativeKernel:
    """Return forward dynamics by conjugate gradients on compiled products."""

    def right(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
        return tau + force - newton_euler.bias_force(tree, q, v, wrenches)

    kernel = _dynamics_kernel(m, "forward_dynamics", ("q", "v", "tau"), "vdot", right, method, references)
    return IterativeKernel(kernel, *(staged(m, part.__name__, part) for part in METHODS[method].iterates))


def _constrained(m: Model, method: str, described: str, references: tuple[str, ...]) -> ConstrainedKernel:
    """Return forward dynamics of a mechanism with loops."""
    closes = METHODS[method].closes
    assert closes is not None
    scale = np.array(loop_units(m))

    def make(chosen: tuple[int, ...]) -> Kernel:
        def function(tree: Tree, q: Any, v: Any, tau: Any, force: Any, wrenches: Any) -> Any:
            solved = closes.forward_dynamics(tree, q, v, tau + force, wrenches, chosen=chosen)
            return solved.vdot, _flags(solved, scale, chosen, v)

        return _dynamics_kernel(m, "forward_dynamics", ("q", "v", "tau"), ("vdot", "flags"), function, described, references)

    return ConstrainedKernel(m, make)


def weaker(pivots: Any, scale: Any, limit: float) -> Any:
    """Return whether a chosen constraint is less independent of the others than a limit; where the solution is not a number, too.

    `pivots` are those of a method, `scale` is what the chosen constraints are measured by.
    """
    left = [(pivot / unit**2, size / unit**2) for (pivot, size), unit in zip(pivots, scale, strict=True)]
    largest: Any = 0.0
    for _, size in left:
        largest = maximum(largest, size)
    return sum(where(pivot >= limit * largest, 0.0, 1.0) for pivot, _ in left) > 0.0


def _flags(solved: Any, scale: np.ndarray, chosen: tuple[int, ...], v: Any) -> Any:
    """Return the flags of a state, added up."""
    speed = sum(abs(x) for x in v)
    gap, rate = 0.0, 0.0
    for value, change, unit in zip(solved.values, solved.rates, scale, strict=True):
        gap = maximum(gap, abs(value) * (1.0 / unit))
        rate = maximum(rate, abs(change) * (1.0 / unit))
    opening = where(rate > LOOSE * speed + 1e-12, float(OPENING), 0.0)
    return where(gap > LOOSE, float(OPEN), 0.0) + opening + where(weaker(solved.pivots, scale[list(chosen)], WEAK), float(DEPENDENT), 0.0)


def staged(m: Model, name: str, function: Callable[..., Any]) -> tuple[Kernel, Kernel]:
    """Return `function(tree, q, x)` as two kernels: q -> what depends on q alone, and that with x -> the result."""
    trace = Trace(name)
    q, x = trace.input("q", (m.nq,)), trace.input("x", (m.nv,))
    first, second = split(trace.graph(result=function(m.tree().marked(trace.mark), q, x)), ("q",))
    return compile_graph(first), compile_graph(second)


def inverse_dynamics(m: Model, method: str = "auto") -> Kernel:
    """Return the kernel (q, v, vdot) -> tau: the joint forces that give the accelerations vdot.

    What acts by itself is counted as in `forward_dynamics`; where a force depends on time, the kernel is (t, q, v, vdot) -> tau.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.inverse_dynamics(m)([0.0], [0.0], [0.0])
    array([-9.81])
    """
    _check_model(m, "inverse_dynamics")
    _check_tree(m, "inverse_dynamics")
    _, name, solve, references = solution("inverse_dynamics", method, m)

    def function(tree: Tree, q: Any, v: Any, vdot: Any, force: Any, wrenches: Any) -> Any:
        return solve(tree, q, v, vdot, wrenches) - force

    return _dynamics_kernel(m, "inverse_dynamics", ("q", "v", "vdot"), "tau", function, name, references)


def mass_matrix(m: Model, method: str = "auto") -> Kernel:
    """Return the kernel q -> mass matrix (nv, nv), armatures included.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(0.5, 0, 0)), ct.Revolute("y", armature=0.1))
    >>> ct.mass_matrix(m)([0.0])
    array([[0.6]])
    """
    _check_model(m, "mass_matrix")
    _, name, solve, references = solution("mass_matrix", method, m)
    return _kernel(m, "mass_matrix", ("q",), ("mass",), solve, name, references)


def bias_force(m: Model) -> Kernel:
    """Return the kernel (q, v) -> joint forces that hold the motion at vdot = 0.

    Coriolis, centrifugal, gyroscopic and gravity forces, less what acts in the joints and on the bodies (springs, dampers, friction,
    stops, forces): with the mass matrix M, tau = M vdot + bias_force. Where a force depends on time, the kernel is (t, q, v) -> bias.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.bias_force(m)([0.0], [0.0])
    array([-9.81])
    """
    _check_model(m, "bias_force")
    _, name, solve, references = solution("bias_force", "auto", m)

    def function(tree: Tree, q: Any, v: Any, force: Any, wrenches: Any) -> Any:
        return solve(tree, q, v, wrenches) - force

    return _dynamics_kernel(m, "bias_force", ("q", "v"), "bias", function, name, references)


def momenta(m: Model) -> Kernel:
    """Return the kernel (q, v) -> p: the canonical momenta, mass matrix times v.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> ct.momenta(m)([0.0], [3.0])
    array([6.])
    """
    _check_model(m, "momenta")
    _, name, solve, references = solution("momenta", "auto", m)
    return _kernel(m, "momenta", ("q", "v"), ("p",), solve, name, (*references, REFERENCES["NLT03"]))


def energy(m: Model) -> Kernel:
    """Return the kernel (q, v) -> (kinetic, potential) energy [J]; gravity's potential is 0 at the world's origin.

    The potential is that of gravity, of the springs in and outside of the joints, and of the stops; forces from functions have none.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(2.0, at=(0, 0, 1)), ct.Revolute("y"))
    >>> [float(e) for e in ct.energy(m)([0.0], [1.0])]
    [1.0, 19.62]
    """
    return _kernel(m, "energy", ("q", "v"), ("kinetic", "potential"), _energy)


def poses(m: Model) -> Kernel:
    """Return the kernel q -> (bodies, 4, 4): where every body's frame stands in the world, in the order bodies were added.

    >>> m = ct.Model("slider")
    >>> m.add("cart", ct.point_mass(1.0), ct.Prismatic("x"))
    >>> ct.poses(m)([0.5])[0, :3, 3]
    array([0.5, 0. , 0. ])
    """
    names = m.body_names if isinstance(m, Model) else ()
    return _kernel(m, "poses", ("q",), ("poses",), lambda tree, q: _poses(tree, q, names))


def loop_error(m: Model) -> Kernel:
    """Return the kernel q -> how far each loop and coupling is from being closed, in the order of `m.loops`, then `m.couplings`.

    The largest of what is between the two ends of the closing joint: lengths [m], and differences of directions, which are angles [rad]
    where they are small.

    >>> m = ct.Model("gears")
    >>> m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
    >>> m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
    >>> m.couple("mesh", {"small": 1.0, "large": 2.0})
    >>> ct.loop_error(m)([[0.5, -0.25], [0.5, 0.0]])
    array([[0. ],
           [0.5]])
    """
    _check_model(m, "loop_error")
    if not m.has_loops:
        raise ModelError(f"loop_error: model '{m.name}' has no loops; close one by m.close, or couple coordinates by m.couple")
    owners = loop_owners(m)

    def function(tree: Tree, q: Any) -> Any:
        values, _ = constraint_jacobian(tree, q, apart)
        errors: list[Any] = [0.0] * (max(i for i, _ in owners) + 1)
        for value, (i, unit) in zip(values, owners, strict=True):
            errors[i] = maximum(errors[i], abs(value) * (1.0 / unit))
        return np.array(errors, dtype=object)

    return _kernel(m, "loop_error", ("q",), ("error",), function)


def jacobian(m: Model, body: str, point: Any = (0.0, 0.0, 0.0)) -> Kernel:
    """Return the kernel q -> J (6, nv) with J v = (angular velocity of the body, velocity of the point), in the world's axes.

    `point` is in the body's frame [m].

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("z"))
    >>> ct.jacobian(m, "upper", point=(1, 0, 0))([0.0]).T + 0.0
    array([[0., 0., 1., 0., 1., 0.]])
    """
    if isinstance(m, Model):
        m._known(body, "jacobian names body")
    at = array("jacobian point", point, (3,))
    return _kernel(m, "jacobian", ("q",), ("jacobian",), lambda tree, q: _jacobian(tree, q, body, at))
