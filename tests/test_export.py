"""What is exported, as C, CasADi or JAX, gives what the kernel gives; and says so where it cannot go out."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative
from tests.test_cli import run
from tests.test_closed_loops import ring
from tests.test_driven import driven
from tests.test_native import chain as graph_of_a_chain

import catena as ct
from catena.errors import ExportError
from catena.examples import EXAMPLES, four_bar
from catena.export import exported
from catena.export.text import program, tabulated
from catena.graph import OPERATIONS, Trace
from catena.kernels.state_flags import OPEN, OPENING, SINGULAR, WEAK
from catena.native import compile_graph
from catena.simulation.integrators.steps import INTEGRATORS

pytestmark = pytest.mark.evaluated

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is on the path (cc, gcc or clang)")
needs_casadi = pytest.mark.skipif(importlib.util.find_spec("casadi") is None, reason="casadi is not installed")


class Compiled:
    """A kernel in C, compiled and called: returns what the function returns, and its results."""

    def __init__(self, kernel: Any, folder: Path, *options: str, **named: Any) -> None:
        assert COMPILER is not None
        self.kernel, self.code = kernel, ct.export_c(kernel, folder, **named)
        library = folder / f"{self.code.name}.so"
        command = [COMPILER, *STRICT, "-O1", "-shared", "-fPIC", *options, str(folder / f"{self.code.name}.c"), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.function = getattr(ctypes.CDLL(str(library)), self.code.name)

    def __call__(self, *arrays: Any) -> tuple[int, list[np.ndarray]]:
        given = []
        for port, array in zip(self.kernel.inputs, arrays, strict=True):
            value = np.array(array, dtype=float, order="C")
            assert value.shape == port.shape
            given.append(value if port.shape else ctypes.c_double(float(value)))
        results = [np.full(port.shape, np.nan) for port in self.kernel.outputs]
        workspace = np.full(self.code.workspace + 1, np.nan)
        workspace[-1] = 12345.0
        every = [x if isinstance(x, ctypes.c_double) else ctypes.c_void_p(x.ctypes.data) for x in (*given, *results, workspace)]
        found = self.function(*every)
        assert workspace[-1] == 12345.0  # it stays inside
        return found, results


# mechanisms and kernels


def forced() -> ct.Model:
    """A tree on which a spring, a force of time and stops act."""
    m = mechanisms.tree(3, 4, ("revolute", "prismatic", "universal"), options=True)
    m.add("last", mechanisms.body(np.random.default_rng(0)), ct.Revolute("x", limits=(-0.2, 0.2)), parent="body3")
    m.add_spring("coil", "ground", "last", at_a=(0, 0, 1), stiffness=20.0, damping=0.5, length=1.0)
    m.add_force("wind", lambda t, q, v: np.array([ct.where(q[0] > 0.1, np.tanh(t), np.exp(-(t**2))), abs(v[0]), 0.2]), body="last")
    return m


def spatial_loop() -> ct.Model:
    return ring("universal", 1)  # on a floating base, with ball joints among its joints


@cache
def cases() -> dict[str, tuple[ct.Model, Callable[[ct.Model], Any]]]:
    """Kernels of all kinds, with the models that they are made for."""
    joints = mechanisms.tree(1, 9, tuple(mechanisms.JOINTS), options=True, in_turn=True)
    floating = mechanisms.tree(2, 5, floating=True)
    swung = driven(mechanisms.tree(4, 5, ("revolute", "spherical", "planar"), options=True, in_turn=True), ["body1"])
    crank = driven(four_bar(), ["crank"], crank=lambda t: 1.0 + 0.4 * np.sin(2.0 * t))
    found: dict[str, tuple[ct.Model, Callable[[ct.Model], Any]]] = {
        "every joint": (joints, ct.forward_dynamics),
        "floating base": (floating, ct.forward_dynamics),
        "forces and time": (forced(), ct.forward_dynamics),
        "driven": (swung, ct.forward_dynamics),
        "long chain": (mechanisms.chain(5, 24), lambda m: ct.forward_dynamics(m, "articulated-body")),
        "long chain, elimination": (mechanisms.chain(6, 12), lambda m: ct.forward_dynamics(m, "composite-body")),
        "branches, elimination": (mechanisms.tree(9, 10, branching=0.6), lambda m: ct.forward_dynamics(m, "composite-body")),
        "inverse dynamics": (joints, ct.inverse_dynamics),
        "inverse dynamics, composite": (floating, lambda m: ct.inverse_dynamics(m, "composite-inverse")),
        "mass matrix": (floating, ct.mass_matrix),
        "mass matrix, driven": (swung, ct.mass_matrix),
        "bias force": (forced(), ct.bias_force),
        "passive force": (forced(), ct.passive_force),
        "gravity force, driven": (swung, ct.gravity_force),
        "coriolis force, driven": (swung, ct.coriolis_force),
        "coriolis matrix": (joints, ct.coriolis_matrix),
        "momenta": (joints, ct.momenta),
        "velocities": (joints, ct.velocities),
        "hamiltonian dynamics": (joints, ct.hamiltonian_dynamics),
        "hamiltonian dynamics, driven": (swung, ct.hamiltonian_dynamics),
        "energy": (joints, ct.energy),
        "energy, driven": (swung, ct.energy),
        "poses": (floating, ct.poses),
        "jacobian": (joints, lambda m: ct.jacobian(m, "body5", (0.1, 0.2, 0.3))),
        "joint wrenches": (floating, ct.joint_wrenches),
        "driving forces": (swung, ct.driving_forces),
        "loop": (four_bar(), ct.forward_dynamics),
        "loop, multipliers": (four_bar(), lambda m: ct.forward_dynamics(m, "fully-recursive/joint")),
        "loop, driven": (crank, ct.forward_dynamics),
        "loop in space": (spatial_loop(), ct.forward_dynamics),
        "loop in space, multipliers": (spatial_loop(), lambda m: ct.forward_dynamics(m, "fully-recursive/centroid")),
        "loops": (EXAMPLES["watt"](), ct.forward_dynamics),
        "loop, velocities": (four_bar(), ct.velocities),
        "loop, hamiltonian dynamics": (four_bar(), ct.hamiltonian_dynamics),
        "loop, motors": (four_bar(), lambda m: ct.inverse_dynamics(m, actuated=["crank"])),
        "loop, wrenches": (four_bar(), ct.joint_wrenches),
        "loop error": (EXAMPLES["watt"](), ct.loop_error),
        "loop, driving forces": (crank, ct.driving_forces),
        "step": (forced(), lambda m: ct.stepper(m, 1e-3, "rk4")),
        "step, driven": (swung, lambda m: ct.stepper(m, 1e-3, "semi-implicit-euler")),
        "loop, step": (four_bar(), lambda m: ct.stepper(m, 1e-3, "rk4", substeps=2)),
        "loop, step, driven": (crank, lambda m: ct.stepper(m, 1e-3, "semi-implicit-euler")),
        "loop, reduced mass": (four_bar(), lambda m: ct.reduced(m, ["crank"]).mass_matrix),
        "loop, reduced bias": (four_bar(), lambda m: ct.reduced(m, ["crank"]).bias_force),
    }
    return found


def states(m: ct.Model, kernel: Any, count: int = 3, seed: int = 0) -> Iterator[list[Any]]:
    """Yield arguments for a kernel: states that close the loops, where there are any."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        t = float(rng.uniform(0.1, 1.0))
        q, v, other = m.random(rng), rng.normal(size=m.nv), rng.normal(size=m.nv)
        if m.has_loops and kernel.name != "loop_error":
            still = m.at(t)
            q = still.assemble(guess=q)
            v = still.project_velocity(q, v)
        known = {"t": t, "q": q, "v": v, "p": other, "tau": other, "vdot": other}
        if m.has_loops and any(port.name == "vdot" for port in kernel.inputs):
            x = ct.reduced(m)
            known["vdot"] = x.accelerations(q, v, rng.normal(size=len(x.names)))
        yield [known[port.name] for port in kernel.inputs]


def every_operation() -> Any:
    """A kernel with every operation of the graph, conditions that pass from region to region, and numbers as results."""
    trace = Trace("operations")
    x, y, z = trace.input("x", (3,)), trace.input("double"), trace.input("x1", (2, 2))
    trace.mark()
    above, equal = (x[0] < y) | (x[1] <= 0.5), x[2] == y
    trace.mark()
    first = ct.where(above & ~equal, np.sin(x[0]) * np.exp(-x[1]), np.cos(x[0]) / (1.0 + abs(y)))
    results = [first, ct.minimum(x[0], y), ct.maximum(x[1], first), ct.atan2(x[0], y), np.sqrt(x[2] ** 2 + 1.0), np.log(x[1] ** 2 + 0.1)]
    trace.mark()
    results += [np.floor(3.0 * y)]
    results += [(x[1] ** 2 + 0.1) ** x[0], np.tanh(x[2]), -first, 3.0, -2.5, x[1], ct.where(above, z[1, 0], -z[0, 1]), x[0] - y, 1e22 * y]
    return compile_graph(trace.graph(x=np.array(results), again=results[0] + z[1, 1]))


def test_every_operation_is_there() -> None:
    ops = {node[0] for node in every_operation().graph.nodes}
    assert not set(OPERATIONS) - ops


# C


@needs_compiler
@pytest.mark.parametrize("name", cases())
def test_c_equals_the_kernel(name: str, tmp_path: Path) -> None:
    m, make = cases()[name]
    kernel = make(m)
    compiled = Compiled(kernel, tmp_path)
    for arguments in states(m, kernel):
        expected = kernel(*arguments)
        found, results = compiled(*arguments)
        assert found == 0
        for got, want in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert relative(got, want) < 1e-12


@needs_compiler
@pytest.mark.parametrize("method", [name for name in ct.methods("forward_dynamics") if not name.startswith("conjugate")])
def test_c_of_every_method_equals_its_kernel(method: str, tmp_path: Path) -> None:
    fitting = {"coordinate-reduction": EXAMPLES["watt"], "denoc": EXAMPLES["planar-3rrr"]}
    balls = method == "armstrong"
    m = fitting[method]() if method in fitting else mechanisms.chain(3, 5, ("spherical",)) if balls else mechanisms.chain(3, 9)
    kernel = ct.forward_dynamics(m, method)
    compiled = Compiled(kernel, tmp_path)
    for arguments in states(m, kernel):
        found, (vdot,) = compiled(*arguments)
        assert found == 0
        assert relative(vdot, kernel(*arguments)) < 1e-12


@needs_compiler
@pytest.mark.parametrize("merged", [True, False])
def test_c_has_every_operation(merged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not merged:
        monkeypatch.setattr("catena.graph.division.MERGE", -1)
        monkeypatch.setattr("catena.graph.division.MERGE_SMALL", -1)
    kernel = every_operation()
    assert len(program(kernel.graph).calls) == (1 if merged else 3)
    compiled = Compiled(kernel, tmp_path)
    for x in ([0.3, -0.7, 0.2], [0.9, 0.8, 0.5], [0.1, np.nan, 0.5], [-0.0, 0.0, 0.5]):
        found, results = compiled(x, 0.5, [[1.0, 2.0], [3.0, 4.0]])
        assert found == 0
        for got, want in zip(results, kernel(x, 0.5, [[1.0, 2.0], [3.0, 4.0]]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-300)


@needs_compiler
def test_c_of_numbers_that_are_not_finite(tmp_path: Path) -> None:
    trace = Trace("odd numbers")
    x = trace.input("x", (1,))
    kernel = compile_graph(trace.graph(y=np.array([np.nan, np.inf, -np.inf, x[0] + np.inf])))
    _, (y,) = Compiled(kernel, tmp_path)([1.0])
    np.testing.assert_array_equal(y, [np.nan, np.inf, -np.inf, np.inf])


@needs_compiler
def test_c_of_arguments_without_entries(tmp_path: Path) -> None:
    m = ct.Model("hoist")
    m.add("cabin", ct.point_mass(100.0), ct.Driven(ct.Prismatic("z"), lambda t: 0.5 * t**2))
    for kernel in (ct.driving_forces(m), ct.forward_dynamics(m), ct.poses(m)):
        found, results = Compiled(kernel, tmp_path)(2.0, *([[]] * (len(kernel.inputs) - 1)))
        assert found == 0
        np.testing.assert_allclose(results[0], kernel(2.0, *([[]] * (len(kernel.inputs) - 1))), rtol=1e-14)


@needs_compiler
def test_c_takes_the_next_plan_where_one_is_weak_as_the_kernel_does(tmp_path: Path) -> None:
    m = EXAMPLES["watt"]()
    kernel = ct.forward_dynamics(m)
    q = m.assemble(**{m.v_names[0]: 0.6759398496240605})
    v, tau = m.project_velocity(q, np.ones(m.nv)), np.arange(m.nv, dtype=float)
    first, *others = (compile_graph(graph) for graph in kernel.graphs())
    assert first(q, v, tau)[-1] == WEAK
    assert any(other(q, v, tau)[-1] == 0 for other in others)
    found, (vdot,) = Compiled(kernel, tmp_path)(q, v, tau)
    assert found == 0
    assert relative(vdot, kernel(q, v, tau)) < 1e-10
    found, (vdot,) = Compiled(kernel, tmp_path, plans=1, name="one_plan")(q, v, tau)
    assert found == WEAK
    assert relative(vdot, first(q, v, tau)[0]) < 1e-7  # digits are lost


@needs_compiler
def test_c_flags_states_that_the_kernel_refuses(tmp_path: Path) -> None:
    m = four_bar()
    kernel = ct.forward_dynamics(m)
    compiled = Compiled(kernel, tmp_path)
    q, none = m.assemble(crank=1.0), np.zeros(3)
    assert compiled(q, none, none)[0] == 0
    assert compiled(q + 0.1, none, none)[0] == OPEN
    assert compiled(q, np.ones(3), none)[0] == OPENING
    for value, name in ((OPEN, "OPEN"), (OPENING, "OPENING"), (WEAK, "WEAK"), (SINGULAR, "SINGULAR")):
        assert f"#define FOUR_BAR_FORWARD_DYNAMICS_{name} {value} " in compiled.code.header


def test_several_plans_go_out_unless_one_is_asked_for() -> None:
    kernel = ct.forward_dynamics(EXAMPLES["watt"]())
    first, *others = kernel.graphs()
    assert others
    assert first == kernel.graph
    assert exported.exported(kernel).graphs == (first, *others)
    assert exported.exported(kernel, plans=2).graphs == (first, others[0])
    assert exported.exported(kernel, plans=1).graphs == (first,)


def test_code_of_a_chain_does_not_grow_with_it() -> None:
    sources = [ct.export_c(compile_graph(graph_of_a_chain(n))).source for n in (600, 1200)]
    short, long = (len(re.sub(r"= \{.*?\};", "", source, flags=re.S)) for source in sources)  # but for the tables
    assert long < 1.01 * short < 10_000
    one = program(graph_of_a_chain(600))
    tables, (steps,) = tabulated([one])
    assert sum(step.times * len(step.tables) for step in steps) == len(one.calls) > 1000
    assert len(tables) < 10
    assert len(steps) < 12


@needs_compiler
def test_header_is_c_and_cpp_and_names_all(tmp_path: Path) -> None:
    m = ct.Model('a */ b "c" ??/ \\ é\n/* d')
    m.add('*/ "x" \\', ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    compiled = Compiled(ct.forward_dynamics(m), tmp_path, name="odd_names")
    assert compiled([0.0], [0.0], [0.0])[1][0] == pytest.approx(9.81)
    header = compiled.code.header
    for text in ('* / "x" \\', "by articulated-body", f"catena {ct.__version__}", "#define ODD_NAMES_TAU_SIZE 1", 'extern "C"'):
        assert text in header
    cpp = shutil.which("c++")
    if cpp:
        use = "int main() { double x = 0.0; return odd_names(&x, &x, &x, &x, &x); }"
        (tmp_path / "use.cpp").write_text(f'#include "odd_names.h"\n{use}\n')
        command = [cpp, "-Wall", "-Wextra", "-Werror", "use.cpp", "odd_names.so", "-o", "use"]  # linked by its C name
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@needs_compiler
def test_c_needs_nothing_but_functions_of_math(tmp_path: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm is not on the path")
    ct.export_c(ct.forward_dynamics(mechanisms.chain(6, 12), "composite-body"), tmp_path, name="code")
    subprocess.run([COMPILER, *STRICT, "-O1", "-ffreestanding", "-c", "code.c"], cwd=tmp_path, check=True)
    listed = subprocess.run(["nm", "-u", "code.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"U (\w+)", listed)) <= {"sin", "cos", "sqrt", "_GLOBAL_OFFSET_TABLE_"}


# CasADi


@needs_casadi
@pytest.mark.parametrize("name", cases())
def test_casadi_equals_the_kernel(name: str) -> None:
    m, make = cases()[name]
    kernel = make(m)
    function = ct.export_casadi(kernel)
    assert function.name_in() == [port.name for port in kernel.inputs]
    looped = m.has_loops and hasattr(kernel, "plan")
    assert function.name_out() == [port.name for port in kernel.outputs] + ["flags"] * looped
    for arguments in states(m, kernel):
        expected = kernel(*arguments)
        results = [np.array(x) for x in function.call(arguments)]
        if looped:
            assert results.pop() == 0
        for got, want in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert relative(got.reshape(np.shape(want)), want) < 1e-12


def powers() -> Any:
    """A kernel of large whole powers, and of quotients by numbers that have no inverse."""
    trace = Trace("powers")
    x = trace.input("x")
    return compile_graph(trace.graph(odd=x**65, even=x**100, inverse=x**-101, small=x * 1e-305 / 1e-310, large=x * 1e300 / 1.7e308))


POWERS = [-1.01, -0.98, 1.02]


@needs_compiler
@pytest.mark.parametrize("x", POWERS)
def test_large_powers_and_extreme_quotients_in_c_equal_the_kernel(x: float, tmp_path: Path) -> None:
    kernel = powers()
    _, found = Compiled(kernel, tmp_path)(x)
    np.testing.assert_allclose([float(value) for value in found], kernel(x), rtol=1e-13)
    np.testing.assert_allclose(kernel(x), (x**65, x**100, x**-101, 1e5 * x, 1e-8 / 1.7 * x), rtol=1e-13)


@needs_casadi
@pytest.mark.parametrize("x", POWERS)
def test_large_powers_and_extreme_quotients_in_casadi_equal_the_kernel(x: float) -> None:
    kernel = powers()
    np.testing.assert_allclose([float(value) for value in ct.export_casadi(kernel)(x)], kernel(x), rtol=1e-13)


@pytest.mark.parametrize("x", POWERS)
def test_large_powers_and_extreme_quotients_in_jax_equal_the_kernel(x: float, jax: Any) -> None:
    kernel = powers()
    np.testing.assert_allclose([float(value) for value in ct.export_jax(kernel)(x)], kernel(x), rtol=1e-13)


@needs_casadi
def test_casadi_has_every_operation() -> None:
    kernel = every_operation()
    function = ct.export_casadi(kernel, name="operations")
    for x in ([0.3, -0.7, 0.2], [0.9, 0.8, 0.5]):
        arguments = x, 0.5, np.array([[1.0, 2.0], [3.0, 4.0]])
        for got, want in zip(function.call(arguments), kernel(*arguments), strict=True):
            np.testing.assert_allclose(np.array(got).reshape(want.shape), want, rtol=1e-14)


@needs_casadi
def test_jacobians_of_casadi_are_what_mechanics_says() -> None:
    casadi = pytest.importorskip("casadi")
    m = mechanisms.chain(7, 6, ("revolute", "prismatic", "universal"), options=True)
    q, v, x = mechanisms.state(m)

    def derivative(kernel: Any, arguments: tuple, by: str) -> np.ndarray:
        function = ct.export_casadi(kernel)
        symbols = function.mx_in()
        result = casadi.jacobian(function.call(symbols)[0], symbols[function.index_in(by)])
        return np.array(casadi.Function("derivative", symbols, [result])(*arguments))

    mass = ct.mass_matrix(m)(q)
    assert relative(derivative(ct.inverse_dynamics(m), (q, v, x), "vdot"), mass) < 1e-12
    assert relative(derivative(ct.forward_dynamics(m), (q, v, x), "tau") @ mass, np.eye(m.nv)) < 1e-9
    assert relative(derivative(ct.energy(m), (q, v), "v").ravel(), ct.momenta(m)(q, v)) < 1e-12
    forward = ct.forward_dynamics(m)
    for k, by in enumerate(("q", "v")):
        assert relative(derivative(forward, (q, v, x), by), differences(forward, (q, v, x), k)) < 1e-7


@needs_casadi
def test_casadi_differentiates_through_loops_and_the_choice_of_plans() -> None:
    m = EXAMPLES["watt"]()
    kernel = ct.forward_dynamics(m)
    function = ct.export_casadi(kernel)
    for crank in (0.3, 0.6759398496240605):  # at the second the first plan is weak
        q = m.assemble(**{m.v_names[0]: crank})
        v = m.project_velocity(q, np.ones(m.nv))
        J = np.array(function.jacobian()(q, v, np.zeros(m.nv), *function(q, v, np.zeros(m.nv)))[2])
        assert np.isfinite(J).all()
        assert relative(J, differences(kernel, (q, v, np.zeros(m.nv)), 2)) < 1e-7


@needs_casadi
def test_casadi_files_are_read_by_casadi(tmp_path: Path) -> None:
    casadi = pytest.importorskip("casadi")
    kernel = ct.forward_dynamics(four_bar())
    made = ct.export_casadi(kernel, tmp_path)
    loaded = casadi.Function.load(str(tmp_path / "four_bar_forward_dynamics.casadi"))
    (arguments,) = states(four_bar(), kernel, 1)
    assert [float(x) for x in made(*arguments)[0].elements()] == [float(x) for x in loaded(*arguments)[0].elements()]
    with pytest.raises(ExportError, match="'a__b' is not a name for CasADi"):
        ct.export_casadi(kernel, name="a__b")


def differences(kernel: Any, arguments: tuple, k: int, step: float = 1e-5) -> np.ndarray:
    """Return the derivatives of the first result by argument k, by central differences."""
    found = []
    for i in range(len(arguments[k])):
        ahead, behind = ([np.array(x, dtype=float) for x in arguments] for _ in range(2))
        ahead[k][i] += step
        behind[k][i] -= step
        found.append((kernel(*ahead) - kernel(*behind)) / (2.0 * step))
    return np.stack(found, axis=-1)


# JAX


@pytest.fixture
def jax() -> Iterator[Any]:
    """JAX in double precision."""
    found = pytest.importorskip("jax")
    before = found.config.jax_enable_x64
    found.config.update("jax_enable_x64", True)
    yield found
    found.config.update("jax_enable_x64", before)


#: Those of the cases that JAX compiles in seconds.
SMALL = [
    "forces and time", "long chain", "long chain, elimination", "inverse dynamics, composite", "mass matrix, driven", "momenta",
    "energy, driven", "poses", "jacobian", "loop", "loop, multipliers", "loop, driven", "loop, hamiltonian dynamics", "loop, motors",
    "loop error", "loop, driving forces", "loop, step, driven", "loop, reduced mass",
]  # fmt: skip

#: With fusion, XLA takes several times as long for long straight-line code.
UNFUSED = {"xla_disable_hlo_passes": "fusion"}


@pytest.mark.parametrize("name", SMALL)
def test_jax_equals_the_kernel(name: str, jax: Any) -> None:
    m, make = cases()[name]
    kernel = make(m)
    function = jax.jit(ct.export_jax(kernel), compiler_options=UNFUSED)
    for arguments in states(m, kernel, 1):
        expected, results = kernel(*arguments), function(*arguments)
        if m.has_loops and hasattr(kernel, "plan"):
            *results, flags = results
            assert flags == 0
        elif not isinstance(expected, tuple):
            results = (results,)
        for got, want in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert got.dtype == np.float64
            assert relative(got, want) < 1e-10


def test_jax_has_every_operation(jax: Any) -> None:
    kernel = every_operation()
    function = ct.export_jax(kernel, name="operations")
    for x in ([0.3, -0.7, 0.2], [0.9, 0.8, 0.5]):
        arguments = x, 0.5, np.array([[1.0, 2.0], [3.0, 4.0]])
        for got, want in zip(function(*arguments), kernel(*arguments), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-14)


def test_jax_compiles_maps_and_differentiates(jax: Any) -> None:
    m = mechanisms.chain(7, 2, options=True)
    q, v, x = mechanisms.state(m, batch=(4,))
    forward, inverse, energy = ct.forward_dynamics(m), ct.inverse_dynamics(m), ct.energy(m)
    mapped = jax.jit(jax.vmap(ct.export_jax(forward)), compiler_options=UNFUSED)(q, v, x)
    assert relative(mapped, forward(q, v, x)) < 1e-10
    mass = jax.jit(jax.vmap(jax.jacobian(ct.export_jax(inverse), argnums=2)), compiler_options=UNFUSED)(q, v, x)
    assert relative(mass, ct.mass_matrix(m)(q)) < 1e-10
    kinetic = jax.grad(lambda q, v: ct.export_jax(energy)(q, v)[0], argnums=1)
    assert relative(kinetic(q[0], v[0]), ct.momenta(m)(q[0], v[0])) < 1e-10
    by_q = jax.jit(jax.jacfwd(ct.export_jax(forward)), compiler_options=UNFUSED)(q[0], v[0], x[0])
    assert relative(by_q, differences(forward, (q[0], v[0], x[0]), 0)) < 1e-7


def test_jax_of_a_long_graph_is_a_scan_and_differentiates(jax: Any) -> None:
    kernel = compile_graph(graph_of_a_chain(600))
    function = ct.export_jax(kernel, name="chain")
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=600), rng.normal(size=600)
    text = str(jax.make_jaxpr(function)(q, v))
    assert text.count("scan[") >= 2
    assert text.count("\n") < 600
    for got, want in zip(jax.jit(function)(q, v), kernel(q, v), strict=True):
        assert relative(got, want) < 1e-10
    slope = np.asarray(jax.jit(jax.grad(lambda q: function(q, v)[1]))(q))
    ahead, behind = (kernel(q + step * slope, v)[1] for step in (1e-5, -1e-5))
    assert (ahead - behind) / 2e-5 == pytest.approx(slope @ slope, rel=1e-7)


def test_jax_takes_the_next_plan_where_one_is_weak(jax: Any) -> None:
    m = EXAMPLES["watt"]()
    kernel = ct.forward_dynamics(m)
    q = m.assemble(**{m.v_names[0]: 0.6759398496240605})
    v, tau = m.project_velocity(q, np.ones(m.nv)), np.arange(m.nv, dtype=float)
    vdot, flags = ct.export_jax(kernel)(q, v, tau)
    assert flags == 0
    assert relative(vdot, kernel(q, v, tau)) < 1e-10
    assert ct.export_jax(kernel, plans=1)(q, v, tau)[1] == WEAK
    assert ct.export_jax(kernel)(q + 0.1, v, tau)[1] == OPEN + OPENING


def test_jax_modules_stand_alone(jax: Any, tmp_path: Path) -> None:
    m = EXAMPLES["double-pendulum"]()
    kernel = ct.forward_dynamics(m)
    ct.export_jax(kernel, tmp_path)
    program = (
        "import sys, jax; jax.config.update('jax_enable_x64', True)\n"
        "from double_pendulum_forward_dynamics import double_pendulum_forward_dynamics as forward\n"
        "print(*map(float, forward([0.1, 0.2], [0.3, 0.4], [0.5, 0.6]))); assert 'catena' not in sys.modules\n"
        "try: forward([[0.1, 0.2]], [0.3, 0.4], [0.5, 0.6])\nexcept ValueError as error: print(error)\n"
        "jax.config.update('jax_enable_x64', False)\n"
        "try: forward([0.1, 0.2], [0.3, 0.4], [0.5, 0.6])\nexcept RuntimeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers, shape, precision = done.stdout.splitlines()
    assert relative([float(x) for x in numbers.split()], kernel([0.1, 0.2], [0.3, 0.4], [0.5, 0.6])) < 1e-12
    assert shape == "double_pendulum_forward_dynamics: q has shape (1, 2), and takes (2,); batches go through jax.vmap"
    assert "call jax.config.update('jax_enable_x64', True) before" in precision


# what does not go out, and files


@pytest.mark.parametrize("name", INTEGRATORS)
def test_steps_of_explicit_integrators_can_be_exported_and_those_of_implicit_ones_say_why_not(name: str) -> None:
    pendulum, linked = EXAMPLES["double-pendulum"](), EXAMPLES["double-pendulum"]()
    first, second = linked.body_names
    linked.add_bushing("rubber", first, second, stiffness=10.0)
    for m, by_pivots in ((pendulum, INTEGRATORS[name].implicit), (linked, INTEGRATORS[name].stable or INTEGRATORS[name].implicit)):
        move = ct.stepper(m, 1e-3, name)
        if by_pivots:
            with pytest.raises(ExportError, match=r"pivots that are chosen at run time.*a step of an explicit integrator, such as 'rk4'"):
                ct.export_c(move)
        else:
            assert "sin(" in ct.export_c(move).source


def test_kernels_that_cannot_be_exported_say_why() -> None:
    m = EXAMPLES["arm"]()
    with pytest.raises(ExportError, match=r"by conjugate-gradient iterates until it converges.*another method, such as method='auto'"):
        ct.export_c(ct.forward_dynamics(m, method="conjugate-gradient"))
    with pytest.raises(ExportError, match=r"is not a kernel; export what ct\.forward_dynamics\(m\)"):
        ct.export_c(m)
    with pytest.raises(ExportError, match="is not a kernel"):
        ct.export_c(ct.reduced(four_bar()))
    for name in ("2x", "a b", "", "for", "lambda", "é", 3):
        with pytest.raises(ExportError, match=r"is not a name for C and Python; give letters"):
            ct.export_c(ct.energy(m), name=name)
    for plans in (0, -1, 1.5):
        with pytest.raises(ExportError, match=r"plans is .*; give a whole number from 1 on"):
            ct.export_c(ct.energy(m), plans=plans)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ct.energy(EXAMPLES["pendulum"]())
    for name, export in (("casadi", ct.export_casadi), ("jax", ct.export_jax)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ct.MissingPackageError, match=rf'needs {name}, which is not installed; pip install "catena\[{name}\]"'):
            export(kernel)


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    kernel = ct.energy(EXAMPLES["pendulum"]())
    code = ct.export_c(kernel, tmp_path)
    header, source = tmp_path / "pendulum_energy.h", tmp_path / "pendulum_energy.c"
    assert (header.read_text(encoding="utf-8"), source.read_text(encoding="utf-8")) == (code.header, code.source)
    header.write_text("old")
    assert code.save(tmp_path) == (header, source)
    assert header.read_text(encoding="utf-8") == code.header
    with pytest.raises(ExportError, match=r"cannot be written: no such file or directory; make the folder .* first"):
        code.save(tmp_path / "none")
    source.unlink()
    source.mkdir()
    header.write_text("old")
    with pytest.raises(ExportError, match="cannot be written"):
        code.save(tmp_path)
    assert header.read_text() == "old"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["pendulum_energy.c", "pendulum_energy.h"]


# the page


def page(fence: str, name: str = "export.md") -> list[tuple[str, str]]:
    """The blocks of a language on the page about exports, or on another, and the text below each."""
    text = Path(__file__).parents[1].joinpath("docs", name).read_text(encoding="utf-8")
    return re.findall(rf"^```{fence}\n(.*?)^```$.*?^```text\n(.*?)^```$", text, re.M | re.S)


@needs_compiler
@pytest.mark.parametrize("name", ["export.md", "tutorials/embedded.md"])
def test_program_of_the_page_prints_what_stands_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert COMPILER is not None
    monkeypatch.chdir(tmp_path)
    exec(page("python", name)[0][0], {})
    ((program, expected),) = page("c", name)
    sources = sorted(file.name for file in tmp_path.glob("*.c"))
    (tmp_path / "main.c").write_text(program)
    subprocess.run([COMPILER, *STRICT, "-O2", "main.c", *sources, "-lm", "-o", "program"], check=True)
    assert sources
    assert subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, check=True).stdout == expected


@pytest.mark.parametrize("package", ["casadi", "jax"])
def test_code_of_the_page_prints_what_stands_below_it(package: str, capsys: pytest.CaptureFixture) -> None:
    found = pytest.importorskip(package)
    namespace = {"np": np, "ct": ct}
    m = ct.Model("swing")
    m.add("arm", ct.rod(1.0, mass=1.0, axis="z"), ct.Revolute("y", damping=0.05))
    namespace["m"] = m
    ((code, expected),) = [pair for pair in page("py") if f"import {package}" in pair[0]]
    try:
        exec(code, namespace)
    finally:
        if package == "jax":
            found.config.update("jax_enable_x64", False)
    assert capsys.readouterr().out == expected


# the command


@needs_compiler
def test_command_writes_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    four_bar().save("bar.toml")
    (tmp_path / "out").mkdir()
    arguments = ["export", "c", "bar.toml", "--what", "inverse-dynamics", "--actuated", "crank", "--out", "out", "--name", "motor"]
    code, output, errors = run(*arguments, "--json")
    assert (code, errors) == (0, "")
    facts = json.loads(output)
    assert facts["files"] == [str(Path("out", "motor.h")), str(Path("out", "motor.c"))]
    assert facts["inputs"] == {"q": [3], "v": [3], "vdot": [3]}
    assert facts["outputs"] == {"tau": [3]}
    expected = ct.export_c(ct.inverse_dynamics(ct.load("bar.toml"), actuated=["crank"]), name="motor")
    assert (tmp_path / "out" / "motor.c").read_text(encoding="utf-8") == expected.source
    assert facts["workspace"] == expected.workspace
    code, output, errors = run(*arguments)
    assert (code, errors) == (0, "")
    assert output.startswith("motor: inverse dynamics of four-bar\n")
    assert "motor.h" in output


def test_command_makes_every_kernel(tmp_path: Path) -> None:
    from catena.cli.export import KERNELS

    m = driven(four_bar(), ["crank"], crank=ct.Harmonic(1.0, 0.0, 0.4, 2.0))
    m.save(tmp_path / "bar.toml")
    for what in KERNELS:
        more = ["--body", "rocker", "--point", "0.1,0,0"] if what == "jacobian" else []
        code, output, errors = run("export", "c", str(tmp_path / "bar.toml"), "--what", what, *more, "--out", str(tmp_path))
        assert (code, errors) == (0, ""), what
        name = f"four_bar_{what.replace('-', '_')}"
        assert (tmp_path / f"{name}.h").exists()
        assert name in output


@needs_casadi
def test_command_writes_casadi(tmp_path: Path) -> None:
    casadi = pytest.importorskip("casadi")
    assert run("export", "casadi", "pendulum", "--what", "mass-matrix", "--method", "direct", "--out", str(tmp_path))[0] == 0
    function = casadi.Function.load(str(tmp_path / "pendulum_mass_matrix.casadi"))
    m = EXAMPLES["pendulum"]()
    assert float(function(0.5)) == pytest.approx(ct.mass_matrix(m)([0.5])[0, 0], rel=1e-12)


def test_command_makes_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    assert run("export", "c", "pendulum", "--out", str(out))[0] == 0
    assert sorted(path.name for path in out.iterdir()) == ["pendulum_forward_dynamics.c", "pendulum_forward_dynamics.h"]
    (tmp_path / "file").touch()
    code, _, errors = run("export", "c", "pendulum", "--out", str(tmp_path / "file"))
    assert (code, errors.strip()) == (1, f"error: --out {tmp_path / 'file'}: cannot be made: file exists; name another folder")


def test_command_writes_jax(tmp_path: Path, jax: Any) -> None:
    assert run("export", "jax", "pendulum", "--out", str(tmp_path))[0] == 0
    assert "def pendulum_forward_dynamics(q, v, tau):" in (tmp_path / "pendulum_forward_dynamics.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["amr"], "error: 'amr' is neither a built-in example nor a file"),
        (["arm", "--what", "dynamics"], "error: --what dynamics: there is no such kernel; did you mean 'inverse-dynamics'? Choose from "),
        (["arm", "--what", "energy", "--method", "direct"], "error: --method: energy does not take it, only forward-dynamics, "),
        (["arm", "--what", "jacobian"], "error: --what jacobian needs a body; choose one by --body from shoulder1, "),
        (["arm", "--what", "jacobian", "--body", "hand", "--point", "a"], "error: --point a: give three numbers, such as 0,0,0.1"),
        (["arm", "--body", "hand"], "error: --body: forward-dynamics does not take it, only jacobian; leave it out"),
        (["arm", "--name", "2x"], "error: '2x' is not a name for C and Python"),
        (["arm", "--method", "conjugate-gradient"], "error: forward_dynamics by conjugate-gradient iterates"),
        (["arm", "--what", "loop-error"], "error: loop_error: model 'arm' has no loops"),
    ],
)
def test_command_fails_in_one_line(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, output, errors = run("export", "c", *arguments)
    assert (code, output) == (1, "")
    assert errors.startswith(message)
    assert errors.count("\n") == 1
    assert not list(tmp_path.iterdir())
