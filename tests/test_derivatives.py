"""Derivatives of graphs: rules against differences, adjoints against tangents, systems, regions, and branches that are not taken."""

from __future__ import annotations

import importlib.util
import shutil
from typing import Any

import numpy as np
import pytest
from tests.mechanisms import JOINTS, at_dead_centre, double_rocker, tree

import catena as ct
from catena.examples import arm, bennett, chain, four_bar, humanoid, stewart_ups
from catena.formulations import METHODS
from catena.formulations.derivatives import articulated, through_mass_matrix
from catena.graph import OPERATIONS, Graph, Port, Subgraph, Trace, where
from catena.graph.differentiated import adjoint_graph, jacobian_graph, tangent_graph
from catena.graph.operations import CONDITION
from catena.kernels.methods import TANGENTS, fitting
from catena.model.simple_joints import with_simple_joints
from catena.native import compile_graph
from catena.references import REFERENCES

pytestmark = pytest.mark.evaluated

STATES = np.array([[0.3, 0.7, 0.2], [0.9, 0.4, 1.5], [0.1, 2.5, 0.6], [3.1, 0.25, 7.2]])


def graph_of(kernel: Any) -> Graph:
    return kernel.graph


def names(graph: Graph) -> tuple[str, ...]:
    return tuple(port.name for port in graph.inputs)


def differences(graph: Graph, x: list[np.ndarray], dx: list[np.ndarray], h: float = 1e-5) -> list[np.ndarray]:
    """Return the derivatives of all outputs along a direction, by central differences of fourth order."""

    def at(s: float) -> tuple[np.ndarray, ...]:
        return graph.evaluate(*(a + s * b for a, b in zip(x, dx, strict=True)))

    return [(8.0 * (b - a) - (d - c)) / (12.0 * h) for a, b, c, d in zip(at(-h), at(h), at(-2 * h), at(2 * h), strict=True)]


def agree(graph: Graph, rng: np.random.Generator, x: list[np.ndarray], tolerance: float) -> None:
    """Compare the tangent of a graph with differences, its adjoint with the tangent, and its Jacobian with both."""
    wrt = names(graph)
    dx = [rng.normal(size=port.shape) for port in graph.inputs]
    values = graph.evaluate(*x)
    found = tangent_graph(graph, wrt, {}).evaluate(*x, *dx)
    assert all(np.array_equal(a, b) for a, b in zip(values, found, strict=False))
    changes = found[len(values) :]
    for change, expected in zip(changes, differences(graph, x, dx), strict=True):
        assert np.abs(change - expected).max(initial=0.0) <= tolerance * max(1.0, np.abs(expected).max(initial=0.0))
    bars = [rng.normal(size=port.shape) for port in graph.outputs]
    gradients = adjoint_graph(graph, wrt, {}).evaluate(*x, *bars)
    forward = sum(float(np.sum(a * b)) for a, b in zip(bars, changes, strict=True))
    backward = sum(float(np.sum(a * b)) for a, b in zip(gradients, dx, strict=True))
    size = sum(float(np.sum(np.abs(a * b))) for a, b in zip(gradients, dx, strict=True))
    assert abs(forward - backward) <= 1e-13 * max(size, 1.0)
    outputs = [port.name for port in graph.outputs]
    matrices = iter(jacobian_graph(graph, outputs, wrt, {}).evaluate(*x))
    for change in changes:
        total = sum(np.tensordot(next(matrices), d, axes=np.ndim(d)) for d in dx)
        assert np.abs(total - change).max(initial=0.0) <= 1e-12 * max(1.0, np.abs(change).max(initial=0.0))


@pytest.mark.parametrize("name", [name for name, row in OPERATIONS.items() if row.result != CONDITION])
def test_the_rule_of_every_operation_equals_differences(name: str) -> None:
    nodes: list[tuple] = [*(("input", i) for i in range(3)), ("const", 0.5)]
    nodes += [("lt", 3, i) for i in range(3)]
    operands = [4 + i if type_ == CONDITION else i for i, type_ in enumerate(OPERATIONS[name].operands)]
    nodes.append((name, *operands))
    graph = Graph(name, tuple(nodes), (Port("x", (3,)),), (Port("z", ()),), ((len(nodes) - 1,),)).check()
    for x in STATES:
        agree(graph, np.random.default_rng(0), [x], 1e-9)


@pytest.mark.parametrize("method", ["articulated-body", "composite-body", "canonical-momenta", "fully-recursive/origin"])
def test_forward_dynamics_of_random_trees(method: str) -> None:
    rng = np.random.default_rng(1)
    for seed in range(3):
        m = tree(seed, 5, options=True)
        graph = graph_of(ct.forward_dynamics(m, method))
        agree(graph, rng, [m.random(rng), rng.normal(size=m.nv), rng.normal(size=m.nv)], 1e-7)


def test_systems_are_differentiated_by_the_implicit_rule() -> None:
    trace = Trace("system")
    A, b = trace.input("A", (4, 4)), trace.input("b", (4,))
    parent = [-1, 0, 1, 0]
    graph = trace.graph(x=trace.solve(A, b, parent))
    assert any(type(node[0]).__name__ == "Elimination" for node in graph.nodes)
    rng = np.random.default_rng(2)
    A0 = rng.normal(size=(4, 4))
    A0 = A0 @ A0.T + 4.0 * np.eye(4)
    A0[3, 1:3] = A0[1:3, 3] = 0.0
    agree(graph, rng, [A0, rng.normal(size=4)], 1e-8)


@pytest.mark.parametrize("redundant", [False, True])
def test_saddle_points_are_differentiated_by_the_implicit_rule(redundant: bool) -> None:
    trace = Trace("saddle point")
    a, b = trace.input("a", (3, 3)), trace.input("b", (2, 3))
    f, g = trace.input("f", (3, 1)), trace.input("g", (2, 1))
    J, right = (np.concatenate([b, b[:1] + b[1:]]), np.concatenate([g, g[:1] + g[1:]])) if redundant else (b, g)
    M = a @ a.T + np.eye(3)
    solved = trace.saddle_point(M, f, J, right, 1e-9, 2)
    graph = trace.graph(x=solved.x, force=J.T @ solved.y)
    rng = np.random.default_rng(3)
    x = [rng.normal(size=port.shape) for port in graph.inputs]
    agree(graph, rng, x, 1e-7)


def test_subgraphs_are_differentiated_as_subgraphs() -> None:
    inner = Trace("wave")
    x, y = inner.input("x"), inner.input("y", (2,))
    wave = Subgraph(inner.graph(z=np.array([np.sin(x * y[0]), y[1] / (1.0 + x * x)], dtype=object), sum=x + y[1]))
    trace = Trace("waves")
    s = trace.input("s", (3,))
    z, total = trace.call(wave, s[0], s[1:])
    z2, _ = trace.call(wave, z[0], np.array([z[1], total], dtype=object))
    graph = trace.graph(result=z2, total=total)
    rng = np.random.default_rng(4)
    agree(graph, rng, [rng.normal(size=3)], 1e-8)
    tangent = tangent_graph(graph, ("s",), {})
    assert sum(isinstance(node[0], Subgraph) for node in tangent.nodes) == 2
    found = compile_graph(tangent)([0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    assert all(np.allclose(a, b, rtol=1e-14) for a, b in zip(found, tangent.evaluate([0.1, 0.2, 0.3], [1.0, 2.0, 3.0]), strict=True))


def test_a_branch_that_is_not_taken_does_not_spoil_the_other() -> None:
    trace = Trace("guarded")
    x = trace.input("x")
    graph = trace.graph(y=where(x > 0.0, np.log(x) * np.sqrt(x) + 3.0 / x, x * x), r=np.sqrt(x * x))
    for value, slope in ((0.0, 0.0), (-2.0, -4.0)):
        tangent = tangent_graph(graph, ("x",), {}).evaluate(value, 1.0)
        assert float(tangent[2]) == slope
        assert float(adjoint_graph(graph, ("x",), {}).evaluate(value, 1.0, 0.0)[0]) == slope
    assert float(tangent_graph(graph, ("x",), {}).evaluate(0.0, 1.0)[3]) == 0.0  # of the root, at zero


def test_bodies_that_are_alike_share_code_in_derivatives() -> None:
    def shapes(count: int) -> list[int]:
        graph = graph_of(ct.forward_dynamics(chain(count), "articulated-body"))
        wrt = names(graph)
        return [compile_graph(make(graph, wrt, {})).blocks for make in (tangent_graph, adjoint_graph)]

    assert max(shapes(40) + shapes(80)) < 90


def test_large_and_small_matrices_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import catena.graph.differentiated as module

    m = arm()
    graph = ct.inverse_dynamics(m).graph
    rng = np.random.default_rng(5)
    x = [rng.normal(size=7) for _ in range(3)]
    for row, column in ((1e9, 1.0), (1.0, 1e9)):  # by columns, by rows
        monkeypatch.setattr(module, "_ROW", row)
        monkeypatch.setattr(module, "_COLUMN", column)
        found = []
        for limit in (0, 10**12):
            monkeypatch.setattr(module, "UNROLLED", limit)
            found.append(jacobian_graph(graph, ["tau"], ["q", "vdot"], {}).evaluate(*x))
        assert all(np.abs(a - b).max() <= 1e-13 * np.abs(b).max() for a, b in zip(*found, strict=True))
        assert np.abs(found[0][1] - ct.mass_matrix(m)(x[0])).max() < 1e-12


def test_second_derivatives_of_energy_are_symmetric() -> None:
    m = arm()
    energy = ct.energy(m)
    gradient = adjoint_graph(energy.graph, ("q",), {})
    hessian = jacobian_graph(gradient, ["q_bar"], ["q"], {})
    rng = np.random.default_rng(6)
    q, v = rng.normal(size=(2, 7))
    (H,) = hessian.evaluate(q, v, 0.0, 1.0)
    assert np.abs(H - H.T).max() < 1e-12 * np.abs(H).max()
    (force,) = gradient.evaluate(q, v, 0.0, 1.0)
    assert np.abs(force - ct.inverse_dynamics(m)(q, 0 * q, 0 * q)).max() < 1e-12 * np.abs(force).max()


def test_names_that_a_kernel_does_not_have_are_refused() -> None:
    fd = ct.forward_dynamics(four_bar())
    for call, says in (
        (lambda: fd.jacobian("acceleration", "q"), "has no output 'acceleration'; choose from 'vdot'"),
        (lambda: fd.jacobian("vdot", "x"), "has no input 'x'; choose from 'q', 'v', 'tau'"),
        (lambda: fd.jvp(["q", "u"]), "has no input 'u'"),
        (lambda: fd.vjp("p"), "has no input 'p'"),
    ):
        with pytest.raises(ct.ArgumentError, match=says):
            call()


# kernels, along the manifold of positions and with loops

KERNELS = {
    "forward dynamics": ct.forward_dynamics, "inverse dynamics": ct.inverse_dynamics, "mass": ct.mass_matrix, "bias": ct.bias_force,
    "momenta": ct.momenta, "velocities": ct.velocities, "hamiltonian": ct.hamiltonian_dynamics, "energy": ct.energy, "poses": ct.poses,
    "wrenches": ct.joint_wrenches, "gravity": ct.gravity_force, "coriolis": ct.coriolis_force, "passive": ct.passive_force,
    "coriolis matrix": ct.coriolis_matrix,
}  # fmt: skip


def crane() -> ct.Model:
    """A driven joint, a ball joint, and all that acts in joints and between bodies."""
    m = ct.Model("crane")
    m.add("trolley", ct.point_mass(50.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 * np.sin(2.0 * t)))
    m.add("load", ct.box(0.3, 0.2, 0.4, mass=10.0), ct.Spherical(damping=0.3), parent="trolley", at=(0, 0, -1))
    m.add("hook", ct.box(0.1, 0.2, 0.1, mass=2.0), ct.Revolute("y", stiffness=3.0, friction=0.2), parent="load", at=(0.1, 0, -1))
    m.add("stop", ct.box(0.1, 0.2, 0.1, mass=2.0), ct.Revolute("x", limits=(-0.1, 0.2)), parent="load", at=(-0.1, 0, -1))
    m.add_spring("line", "hook", "ground", at_a=(0, 0, 0.1), at_b=(1, 0, -2), stiffness=20.0, damping=0.5, length=0.4)
    m.add_force("wind", lambda t, q, v: np.array([0.0, 0.1 * v[0], 0.0, np.cos(3.0 * t), 0.0, 0.2 * q[1]], dtype=object), body="load")
    return m


class Motion:
    """States of a model along a smooth curve that keeps its loops closed: positions, velocities and what else kernels take."""

    def __init__(self, m: ct.Model, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.m, self.draw = m, rng.normal
        self.q = m.assemble(guess=m.random(rng)) if m.has_loops else m.random(rng)
        self.u, self.v, self.w = (self.closed(self.q, rng.normal(size=m.nv)) for _ in range(3))
        self.fixed = {name: rng.normal(size=(2, m.nv)) for name in ("tau", "vdot", "p")} | {"t": rng.uniform(0.2, 1.0, 2)}
        self.accelerations = ct.reduced(m).accelerations if m.has_loops else None

    def closed(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self.m.project_velocity(q, v) if self.m.has_loops else v

    def at(self, s: float) -> dict[str, Any]:
        m = self.m
        q = m.integrate(self.q, s * self.u)
        q = m.assemble(guess=q) if m.has_loops else q
        v = self.closed(q, self.v + s * self.w)
        found = {"q": q, "v": v} | {name: a + s * b for name, (a, b) in self.fixed.items()}
        if self.accelerations is not None:
            found["vdot"] = self.accelerations(q, v, found["vdot"][: self.accelerations.inputs[-1].shape[0]])
        return found

    def derivative(self, f: Any, h: float) -> Any:
        a, b, c, d = (f(self.at(s)) for s in (-h, h, -2 * h, 2 * h))
        return (8.0 * (b - a) - (d - c)) / (12.0 * h)

    def direction(self, name: str, h: float) -> np.ndarray:
        if name != "q":
            return self.derivative(lambda x: x[name], h)
        m = self.m
        return self.derivative(lambda x: m.difference(self.at(0.0)["q"], x["q"]), h)


@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("build", [crane, four_bar, lambda: tree(3, 4, options=True, floating=True)], ids=["crane", "four-bar", "floating"])
def test_derivatives_of_kernels_equal_differences_along_motions(build: Any, make: Any) -> None:
    m = build()
    kernel, motion, h = make(m), Motion(m, 7), 1e-4
    state = motion.at(0.0)
    arguments = [state[port.name] for port in kernel.inputs]
    directions = [motion.direction(port.name, h) for port in kernel.inputs]
    count = len(kernel.outputs)

    def outputs(x: dict[str, Any]) -> np.ndarray:
        found = kernel(*(x[port.name] for port in kernel.inputs))
        return np.concatenate([np.ravel(one) for one in (found if count > 1 else (found,))])

    found = kernel.jvp()(*arguments, *directions)
    changes = np.concatenate([np.ravel(x) for x in found[count:]])
    expected = motion.derivative(outputs, h)
    assert np.abs(np.concatenate([np.ravel(x) for x in found[:count]]) - outputs(state)).max() <= 1e-12 * np.abs(outputs(state)).max()
    assert np.abs(changes - expected).max() <= 1e-7 * max(1.0, np.abs(expected).max())

    bars = [motion.draw(size=np.shape(x)) for x in found[:count]]
    gradients = kernel.vjp()(*arguments, *bars)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    forward = sum(float(np.sum(a * b)) for a, b in zip(bars, found[count:], strict=True))
    terms = [a * b for a, b in zip(gradients, directions, strict=True)]
    assert abs(forward - sum(float(np.sum(x)) for x in terms)) <= 1e-12 * sum(float(np.sum(np.abs(x))) for x in terms)

    matrices = kernel.jacobian([port.name for port in kernel.outputs], [port.name for port in kernel.inputs])(*arguments)
    matrices = iter(matrices if isinstance(matrices, tuple) else (matrices,))
    total = np.concatenate([
        np.ravel(sum(np.tensordot(next(matrices), d, axes=np.ndim(d)) for d in directions)) for _ in range(count)
    ])  # fmt: skip
    assert np.abs(total - changes).max() <= 1e-11 * max(1.0, np.abs(changes).max())


# derivatives of the dynamics, by recursions

PLAIN = [kind for kind in JOINTS if kind not in ("cam", "helicoid", "plate")]
TREES = {
    "crane": crane, "every joint": lambda: tree(3, 9, PLAIN, in_turn=True, options=True), "custom": lambda: tree(1, 4, options=True),
    "floating": lambda: tree(4, 7, PLAIN, options=True, floating=True), "branches": lambda: tree(8, 12, ["revolute"], branching=0.9),
    "arm": arm, "chain": lambda: chain(22), "humanoid": humanoid,
}  # fmt: skip


def relative(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a, dtype=float) - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))


@pytest.mark.parametrize("build", TREES.values(), ids=TREES)
def test_recursions_equal_the_derivatives_of_the_kernels(build: Any) -> None:
    m, rng = build(), np.random.default_rng(9)
    time = ("t",) if m.time_dependent else ()
    state = {"t": 0.4, "q": m.random(rng), "v": rng.normal(size=m.nv), "tau": rng.normal(size=m.nv), "vdot": rng.normal(size=m.nv)}
    for make, kernel, output, load in (
        (ct.forward_dynamics_derivatives, ct.forward_dynamics(m), "vdot", "tau"),
        (ct.inverse_dynamics_derivatives, ct.inverse_dynamics(m), "tau", "vdot"),
    ):
        arguments = [state[name] for name in (*time, "q", "v", load)]
        expected = jacobian_graph(graph_of(kernel), [output], ["q", "v", load, *time], kernel.charts, values=True).evaluate(*arguments)
        for method in ("auto", *fitting(make.__name__, m)):
            for a, b in zip(make(m, method).graph.evaluate(*arguments), expected, strict=True):
                assert a.shape == b.shape
                assert relative(a, b) < 1e-11


def test_a_kernel_that_iterates_has_the_derivatives_of_one_that_does_not() -> None:
    m, rng = chain(6), np.random.default_rng(12)
    state = m.random(rng), rng.normal(size=6), rng.normal(size=6), *rng.normal(size=(3, 6))
    found, expected = (ct.forward_dynamics(m, method).jvp()(*state) for method in ("conjugate-gradient", "articulated-body"))
    assert relative(found[1], expected[1]) < 1e-13


def test_both_recursions_of_forward_dynamics_are_the_same() -> None:
    for build in TREES.values():
        m, rng = build(), np.random.default_rng(10)
        simple = with_simple_joints(m.tree().at(0.3))
        if simple is None:
            continue
        q, v, tau = m.random(rng), rng.normal(size=m.nv), rng.normal(size=m.nv)
        changes = rng.normal(size=(2, m.nv, m.nv))
        one, other = (x.forward_dynamics_derivatives(simple, q, v, tau, *changes) for x in (articulated, through_mass_matrix))
        assert all(relative(a, np.asarray(b, dtype=float)) < 1e-10 for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("build", [arm, lambda: tree(4, 7, PLAIN, floating=True)], ids=["arm", "floating"])
def test_inverse_and_forward_derivatives_are_related_by_the_mass_matrix(build: Any) -> None:
    m, rng = build(), np.random.default_rng(11)
    q, v, tau = m.random(rng), rng.normal(size=m.nv), rng.normal(size=m.nv)
    vdot, by_q, by_v, inverse = ct.forward_dynamics_derivatives(m)(q, v, tau)
    again, tau_by_q, tau_by_v, mass = ct.inverse_dynamics_derivatives(m)(q, v, vdot)
    assert relative(again, tau) < 1e-11
    assert relative(mass @ inverse, np.eye(m.nv)) < 1e-11
    assert relative(mass @ by_q, -tau_by_q) < 1e-10
    assert relative(mass @ by_v, -tau_by_v) < 1e-10
    assert relative(mass, ct.mass_matrix(m)(q)) < 1e-13


def test_derivatives_know_their_method_and_where_it_comes_from() -> None:
    for make in (ct.forward_dynamics_derivatives, ct.inverse_dynamics_derivatives):
        recursions = [name for name in ct.methods(make.__name__) if name != TANGENTS]
        for name in recursions:
            kernel = make(arm(), name)
            assert (kernel.method, kernel.references) == (name, tuple(REFERENCES[key] for key in METHODS[name].references))
        assert make(arm()).method.startswith(tuple(f"{name} (auto: " for name in recursions))
        custom = tree(1, 4, ["cam"])
        with pytest.raises(ct.MethodError, match=r"joints must be made of screws, and that of '\w+' is a function; choose from 'auto', '"):
            make(custom, recursions[0])
        with pytest.raises(ct.MethodError, match="the method is for trees, and the model has loops"):
            make(four_bar(), recursions[0])
        dynamics = getattr(ct, make.__name__.removesuffix("_derivatives"))
        for m in (custom, four_bar()):
            assert (make(m).method, make(m).references) == (dynamics(m).method, dynamics(m).references)


def test_the_recursion_of_least_operations_is_taken() -> None:
    for build, best in ((arm, "derivatives/mass-matrix"), (lambda: tree(4, 7, PLAIN, floating=True), "derivatives/articulated")):
        counts = {
            name: sum(ct.forward_dynamics_derivatives(build(), name).operations.values())
            for name in fitting("forward_dynamics_derivatives", build())
        }
        assert best == min(counts, key=lambda name: counts[name])
        assert ct.forward_dynamics_derivatives(build()).method.startswith(f"{best} (auto: ")


# with loops


def driven_linkage() -> ct.Model:
    """A four-bar on a table that is shaken, with a ball joint and a spring."""
    m = ct.Model("shaken linkage")
    m.add("table", ct.point_mass(5.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.1 * np.sin(3.0 * t)))
    m.add("crank", ct.rod(0.3, mass=1.5), ct.Revolute("y", damping=0.2), parent="table")
    m.add("coupler", ct.rod(1.0, mass=5.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
    m.add("rocker", ct.rod(0.6, mass=3.0), ct.Revolute("y"), parent="ground", at=(1.0, 0, 0))
    m.close("pin", ct.Spherical(), "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
    m.add("bob", ct.box(0.1, 0.2, 0.3, mass=1.0), ct.Spherical(), parent="coupler", at=(0.5, 0, 0))
    m.add_spring("tie", "bob", "ground", at_a=(0, 0, 0.1), at_b=(0, 1, 1), stiffness=10.0, length=0.5)
    return m


@pytest.mark.parametrize("build", [four_bar, bennett, stewart_ups, driven_linkage, double_rocker], ids=lambda build: build.__name__)
def test_derivatives_with_loops_hold_along_motions_that_keep_them_closed(build: Any) -> None:
    m = build()
    time = m.time_dependent
    kernel, fd = ct.forward_dynamics_derivatives(m), ct.forward_dynamics(m)
    names = [*(("t",) if time else ()), "q", "v", "tau"]
    starts = [m.assemble(guess=m.random(seed), t=0.4) if time else m.assemble(guess=m.random(seed)) for seed in range(3)]
    if build is double_rocker:  # the plan does not fit there
        starts += list(at_dead_centre(m, 1))
    for seed, q0 in enumerate(starts):
        rng = np.random.default_rng(seed)
        rates, tau = rng.normal(size=(3, m.nv)), rng.normal(size=(2, m.nv))
        u = m.project_velocity(q0, rates[0], t=0.4) if time else m.project_velocity(q0, rates[0])

        def at(s: float, q0: Any = q0, u: Any = u, rates: Any = rates, tau: Any = tau) -> dict[str, Any]:
            t = {"t": 0.4 + s} if time else {}
            q = m.assemble(guess=m.integrate(q0, s * u), **t)
            return t | {"q": q, "v": m.project_velocity(q, rates[1] + s * rates[2], **t), "tau": tau[0] + s * tau[1]}

        h, state = 1e-4, at(0.0)

        def slope(f: Any, at: Any = at, h: float = h) -> Any:
            a, b, c, d = (f(at(s)) for s in (-h, h, -2 * h, 2 * h))
            return (8.0 * (b - a) - (d - c)) / (12.0 * h)

        vdot, *matrices = kernel(*(state[name] for name in names))
        expected = slope(lambda x: fd(*(x[name] for name in names)))
        found = matrices[0] @ slope(lambda x, q=state["q"]: m.difference(q, x["q"]))
        found = found + matrices[1] @ slope(lambda x: x["v"]) + matrices[2] @ tau[1] + (matrices[3] if time else 0.0)
        assert relative(vdot, fd(*(state[name] for name in names))) < 1e-12
        assert relative(found, expected) < 1e-8
        assert relative(matrices[2], matrices[2].T) < 1e-11


def geared_shafts() -> ct.Model:
    m = ct.Model("geared shafts")
    for name, mass in (("a", 1.0), ("b", 2.0)):
        m.add(name, ct.rod(0.3, mass=mass), ct.Revolute("y", damping=0.1))
    m.couple("gear", {"a": 3.0, "b": 1.0})
    return m


INPUTS: dict[str, tuple[Any, tuple[str, ...], dict[str, Any]]] = {
    "a gear": (geared_shafts, (), {"gear.a": 3.0}),
    "a gear, then a vector": (geared_shafts, ("b",), {"gear.a": 3.0, "gravity": [0.5, 1.0, -9.0]}),
    "a vector, then a gear": (geared_shafts, (), {"gravity": [0.5, 1.0, -9.0], "gear.b": 1.0}),
    "a length, then a matrix": (four_bar, (), {"pin.at_b.xyz": None, "coupler.inertia": np.diag([0.1, 0.5, 0.4])}),
    "a matrix, then a length": (four_bar, (), {"coupler.inertia": np.diag([0.1, 0.5, 0.4]), "pin.at_b.xyz": None}),
    "wrenches": (four_bar, ("coupler", "crank"), {}),
    "wrenches, then a mass": (stewart_ups, ("platform",), {"platform.mass": 30.0}),
    "with time": (driven_linkage, ("bob",), {"crank.damping": 0.4, "coupler.at": None}),
}


@pytest.mark.parametrize("name", INPUTS)
def test_derivatives_with_loops_are_those_of_the_model_rebuilt_whatever_the_inputs(name: str) -> None:
    """Parameters and wrenches may have any size and order: inputs are known by their names."""
    build, bodies, values = INPUTS[name]
    m, pushed, rng = build(), build(), np.random.default_rng(1)
    values = {path: m.parameters()[path].value if value is None else np.array(value) for path, value in values.items()}
    wrenches = rng.normal(size=(len(bodies), 6))
    for body, wrench in zip(bodies, wrenches, strict=True):
        pushed.add_force(f"on {body}", lambda t, q, v, w=wrench: w, body=body)
    rebuilt = pushed.with_values(values)
    time = {"t": 0.4} if m.time_dependent else {}
    q = m.assemble(guess=m.random(1), **time)
    state = (*time.values(), q, m.project_velocity(q, rng.normal(size=m.nv), **time), rng.normal(size=m.nv))
    given = values | ({"wrenches": wrenches} if bodies else {})
    found = ct.forward_dynamics_derivatives(m, parameters=list(values), wrenches=bodies)(*state, **given)
    for mine, other in zip(found, ct.forward_dynamics_derivatives(rebuilt)(*state), strict=True):
        assert relative(mine, other) < 1e-10


def test_derivatives_by_joint_forces_are_the_inverse_of_the_reduced_mass_matrix() -> None:
    m = stewart_ups()
    q = m.assemble()
    r = ct.reduced(m)
    N, by_tau = r.basis(q), ct.forward_dynamics_derivatives(m)(q, np.zeros(m.nv), np.zeros(m.nv))[3]
    assert relative(by_tau, N @ np.linalg.solve(r.mass_matrix(q), N.T)) < 1e-11


# exports

EXPORTED = {
    "gradient": lambda: ct.forward_dynamics(arm()).vjp(), "matrices": lambda: ct.forward_dynamics_derivatives(arm()),
    "shared code": lambda: ct.forward_dynamics(chain(9)).jacobian("vdot", "q"),
}  # fmt: skip


@pytest.mark.parametrize("make", EXPORTED.values(), ids=EXPORTED)
def test_exports_of_derivatives_equal_their_kernels(make: Any, tmp_path: Any) -> None:
    from tests.test_export import Compiled

    kernel, rng = make(), np.random.default_rng(13)
    x = [rng.normal(size=port.shape) for port in kernel.inputs]
    expected = kernel(*x) if len(kernel.outputs) > 1 else (kernel(*x),)
    exports = []
    if shutil.which("cc"):
        exports.append(Compiled(kernel, tmp_path)(*x)[1])
    if importlib.util.find_spec("casadi"):
        called = ct.export_casadi(kernel)(*x)
        exports.append(called if isinstance(called, tuple) else (called,))
    assert exports
    for found in exports:
        assert all(relative(np.reshape(np.array(a), b.shape), b) < 1e-12 for a, b in zip(found, expected, strict=True))
