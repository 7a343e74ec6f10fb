"""Laws of everything that is called like a kernel: of `Kernel`, `IterativeKernel` and `ConstrainedKernel`, and of what `Reduced` and
`ParallelManipulator` return.

They broadcast, write to `out=`, also where that is one of the arguments, keep what is not finite in its own state, survive pickles and
copies, and may be called from several threads. That they stay what they were when their model changes is in `test_snapshots.py`.
Results are compared bit for bit.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.mechanisms import at_dead_centre, double_rocker
from tests.referee import relative

import catena as ct
from catena.examples import bennett, chain, five_bar_robot, four_bar, gallery
from catena.kernels.iterative import IterativeKernel
from catena.kernels.planned import ConstrainedKernel
from catena.native import Kernel
from catena.simulation.stepper import StepsByPivots

pytestmark = pytest.mark.quick

#: States of a batch: more than the lanes of a group, and not a multiple of them.
STATES = 9


class Case(NamedTuple):
    """A function and a batch of its arguments."""

    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]

    def results(self, *arguments: Any, **named: Any) -> tuple[np.ndarray, ...]:
        return outputs(self.function(*(arguments or self.arguments), **named))


def outputs(found: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, found)) if isinstance(found, tuple) else (np.asarray(found),)


def same(found: Any, wanted: Any, tolerance: float = 0.0) -> bool:
    """Whether two sets of results agree in shape, and in all bits, or to a tolerance."""
    pairs = list(zip(outputs(found), outputs(wanted), strict=True))
    if not all(a.shape == b.shape for a, b in pairs):
        return False
    return all(np.allclose(a, b, rtol=0.0, atol=tolerance) if tolerance else a.tobytes() == b.tobytes() for a, b in pairs)


# cases


@cache
def states(build: Callable[[], ct.Model]) -> tuple[ct.Model, dict[str, np.ndarray]]:
    """Return a model and a batch of states that close its loops, with what else kernels take."""
    m, rng = build(), np.random.default_rng(4)
    tau = rng.normal(size=(STATES, m.nv))
    if not m.has_loops:
        q, v = m.random(rng, STATES), rng.normal(size=(STATES, m.nv))
        return m, {"t": rng.uniform(0.0, 1.0, STATES), "q": q, "v": v, "tau": tau, "vdot": tau, "p": tau}
    q = np.array([m.assemble(guess=m.random(rng)) for _ in range(STATES)])
    if build is double_rocker:
        q[2:6] = at_dead_centre(m, 4)
    v = np.array([m.project_velocity(x, rate) for x, rate in zip(q, rng.normal(size=(STATES, m.nv)), strict=True)])
    return m, {"q": q, "v": v, "tau": tau, "vdot": np.array(ct.forward_dynamics(m)(q, v, tau)), "p": tau}


def crane() -> ct.Model:
    m = ct.Model("crane")
    m.add("trolley", ct.point_mass(50.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.5 * np.sin(2.0 * t)))
    m.add("load", ct.point_mass(10.0, at=(0, 0, -3)), ct.Revolute("y"), parent="trolley")
    m.add("hook", ct.point_mass(2.0, at=(0, 0, -1)), ct.Revolute("y"), parent="load", at=(0, 0, -3))
    return m


def springy() -> ct.Model:
    m = ct.Model("springy")
    m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y", damping=0.2, limits=(-0.5, 0.5)))
    m.add_spring("coil", "arm", "ground", at_a=(1, 0, 0), at_b=(0, 0, 1), stiffness=30.0, damping=0.5, length=0.4)
    return m


def short_chain() -> ct.Model:
    return chain(5)


def long_chain() -> ct.Model:
    return chain(40)


def kernel(build: Callable[[], ct.Model], make: Callable[[ct.Model], Any]) -> Callable[[], Case]:
    def case() -> Case:
        m, known = states(build)
        found = make(m)
        return Case(found, tuple(known[port.name] for port in found.inputs))

    return case


def part(build: Callable[[], ct.Model], make: Callable[[ct.Model], Any], name: str, *takes: str) -> Callable[[], Case]:
    """Return a function of a reduced model or a manipulator, with its own rates and forces."""

    def case() -> Case:
        m, known = states(build)
        found = make(m)
        at = [m.v_names.index(coordinate) for coordinate in (found.names if hasattr(found, "names") else found.actuated)]
        own = {"rate": known["v"][:, at], "acceleration": known["tau"][:, at], "force": known["tau"][:, at]}
        own["x"] = known["q"][0, at] + np.linspace(0.0, 0.1, STATES)[:, None]  # of joints with one coordinate each
        arguments = tuple((known | own)[given] for given in takes)
        function = getattr(found, name)
        return Case((lambda x: function(x, guess=known["q"][0])) if takes == ("x",) else function, arguments)

    return case


def robot(m: ct.Model) -> ct.ParallelManipulator:
    return ct.ParallelManipulator(m, ["leg1_proximal", "leg2_proximal"])


def crank(m: ct.Model) -> Any:
    return ct.reduced(m, ["crank"])


KERNELS: dict[str, tuple[type, Callable[[], Case]]] = {
    "forward dynamics": (Kernel, kernel(gallery, ct.forward_dynamics)),
    "forward dynamics in regions": (Kernel, kernel(long_chain, ct.forward_dynamics)),
    "forward dynamics, driven": (Kernel, kernel(crane, ct.forward_dynamics)),
    "inverse dynamics": (Kernel, kernel(gallery, ct.inverse_dynamics)),
    "regressor": (Kernel, kernel(gallery, ct.regressor)),
    "mass matrix": (Kernel, kernel(short_chain, ct.mass_matrix)),
    "gravity force": (Kernel, kernel(gallery, ct.gravity_force)),
    "coriolis force, driven": (Kernel, kernel(crane, ct.coriolis_force)),
    "passive force": (Kernel, kernel(springy, ct.passive_force)),
    "coriolis matrix in regions": (Kernel, kernel(long_chain, ct.coriolis_matrix)),
    "hamiltonian dynamics": (Kernel, kernel(short_chain, ct.hamiltonian_dynamics)),
    "energy": (Kernel, kernel(gallery, ct.energy)),
    "poses": (Kernel, kernel(gallery, ct.poses)),
    "frame acceleration": (Kernel, kernel(gallery, lambda m: ct.frame_acceleration(m, "drone", (1, 2, 3), relative_to="cardan"))),
    "frame velocity, driven": (Kernel, kernel(crane, lambda m: ct.frame_velocity(m, "hook", axes="load"))),
    "jacobian in regions": (Kernel, kernel(long_chain, lambda m: ct.jacobian(m, m.body_names[-1], axes="body"))),
    "center of mass": (Kernel, kernel(gallery, lambda m: ct.center_of_mass(m, "acceleration"))),
    "centroidal momentum": (Kernel, kernel(gallery, lambda m: ct.centroidal_momentum(m, "matrix"))),
    "centroidal momentum in regions": (Kernel, kernel(long_chain, lambda m: ct.centroidal_momentum(m, "rate"))),
    "conjugate gradients": (IterativeKernel, kernel(short_chain, lambda m: ct.forward_dynamics(m, "conjugate-gradient"))),
    "conjugate gradients, preconditioned": (
        IterativeKernel, kernel(short_chain, lambda m: ct.forward_dynamics(m, "conjugate-gradient/block-diagonal")),
    ),
    "conjugate gradients, articulated": (
        IterativeKernel, kernel(short_chain, lambda m: ct.forward_dynamics(m, "conjugate-gradient/articulated")),
    ),
    "conjugate gradients, driven": (IterativeKernel, kernel(crane, lambda m: ct.forward_dynamics(m, "conjugate-gradient"))),
    "loop: forward dynamics": (ConstrainedKernel, kernel(four_bar, ct.forward_dynamics)),
    "loop: regressor": (ConstrainedKernel, kernel(four_bar, ct.regressor)),
    "loop: multipliers": (ConstrainedKernel, kernel(four_bar, lambda m: ct.forward_dynamics(m, "fully-recursive/joint"))),
    "loop: inverse dynamics": (ConstrainedKernel, kernel(four_bar, lambda m: ct.inverse_dynamics(m, actuated=["crank"]))),
    "loop: velocities": (ConstrainedKernel, kernel(four_bar, ct.velocities)),
    "loop: hamiltonian dynamics": (ConstrainedKernel, kernel(four_bar, ct.hamiltonian_dynamics)),
    "loop: joint wrenches": (ConstrainedKernel, kernel(four_bar, ct.joint_wrenches)),
    "spatial loop: forward dynamics": (ConstrainedKernel, kernel(bennett, ct.forward_dynamics)),
    "spatial loop: joint wrenches": (ConstrainedKernel, kernel(bennett, ct.joint_wrenches)),
    "other plans: forward dynamics": (ConstrainedKernel, kernel(double_rocker, ct.forward_dynamics)),
    "other plans: velocities": (ConstrainedKernel, kernel(double_rocker, ct.velocities)),
    "other plans: hamiltonian dynamics": (ConstrainedKernel, kernel(double_rocker, ct.hamiltonian_dynamics)),
    "other plans: joint wrenches": (ConstrainedKernel, kernel(double_rocker, ct.joint_wrenches)),
    "reduced: rates": (ConstrainedKernel, part(four_bar, crank, "rates", "q", "rate")),
    "reduced: basis": (ConstrainedKernel, part(four_bar, crank, "basis", "q")),
    "reduced: mass matrix": (ConstrainedKernel, part(four_bar, crank, "mass_matrix", "q")),
    "reduced: accelerations": (ConstrainedKernel, part(four_bar, crank, "accelerations", "q", "v", "acceleration")),
    "reduced: bias force": (ConstrainedKernel, part(four_bar, crank, "bias_force", "q", "v")),
    "robot: rates": (ConstrainedKernel, part(five_bar_robot, robot, "rates", "q", "rate")),
    "robot: jacobian": (ConstrainedKernel, part(five_bar_robot, robot, "jacobian", "q")),
    "robot: accelerations": (ConstrainedKernel, part(five_bar_robot, robot, "accelerations", "q", "v", "acceleration")),
    "robot: inverse dynamics": (ConstrainedKernel, part(five_bar_robot, robot, "inverse_dynamics", "q", "v", "acceleration")),
    "robot: mass matrix": (ConstrainedKernel, part(five_bar_robot, robot, "mass_matrix", "q")),
    "robot: forward dynamics": (ConstrainedKernel, part(five_bar_robot, robot, "forward_dynamics", "q", "v", "force")),
}  # fmt: skip

#: Functions of batches that are not kernels, and take no `out=`. Positions are iterated until all states of a batch have converged, and
#: agree to `CONVERGED` with those of other batches.
CONVERGED = 1e-12
FUNCTIONS: dict[str, Callable[[], Case]] = {
    "reduced: positions": part(four_bar, crank, "positions", "x"),
    "robot: forward kinematics": part(five_bar_robot, robot, "forward_kinematics", "x"),
    "robot: singularities": part(five_bar_robot, robot, "singularities", "q"),
}


@cache
def case(name: str) -> Case:
    return FUNCTIONS[name]() if name in FUNCTIONS else KERNELS[name][1]()


@cache
def expected(name: str) -> tuple[np.ndarray, ...]:
    return case(name).results()


def exact(name: str) -> float:
    """Return the tolerance to which results of other batches agree."""
    return CONVERGED if name in FUNCTIONS else 0.0


# laws


@pytest.mark.parametrize("name", KERNELS)
def test_cases_are_of_their_class(name: str) -> None:
    assert isinstance(case(name).function, KERNELS[name][0])


def test_some_states_need_other_plans() -> None:
    found: Any = case("other plans: forward dynamics").function
    fits = found.fits(*case("other plans: forward dynamics").arguments)
    assert 0 < np.count_nonzero(fits) < STATES


def compiled_parts(function: Any) -> list[Kernel]:
    """Return the kernels that a function is made of."""
    if isinstance(function, ConstrainedKernel):
        spare = function._pivoted
        return [function.planned, *(spare.made.values() if isinstance(spare, StepsByPivots) else [] if spare is None else [spare])]
    return [function] if isinstance(function, Kernel) else list(function._parts)


@pytest.mark.parametrize("name", KERNELS)
def test_machine_code_equals_its_graph(name: str) -> None:
    """Where plans do not fit, flags say so, and what is divided by next to nothing is not compared."""
    function, rng = case(name).function, np.random.default_rng(1)
    known = dict(zip((port.name for port in function.inputs), case(name).arguments, strict=True))
    for part_of in compiled_parts(function):
        arguments = [known.get(port.name, rng.normal(size=(STATES, *port.shape))) for port in part_of.inputs]
        found, evaluated, fits = outputs(part_of(*arguments)), part_of.graph.evaluate(*arguments), np.full(STATES, True)
        if isinstance(function, ConstrainedKernel):
            assert np.array_equal(found[-1], evaluated[-1])
            fits = found[-1] == 0.0
        assert fits.any()
        for result, expected_result in zip(found, evaluated, strict=True):
            assert relative(result[fits], expected_result[fits], scale=1e-6) < 1e-9


@pytest.mark.parametrize("name", [*KERNELS, *FUNCTIONS])
def test_a_batch_is_what_its_states_are_alone(name: str) -> None:
    for i in range(STATES):
        assert same(case(name).results(*(x[i] for x in case(name).arguments)), tuple(x[i] for x in expected(name)), exact(name))


@pytest.mark.parametrize("name", [*KERNELS, *FUNCTIONS])
def test_leading_axes_broadcast(name: str) -> None:
    arguments = case(name).arguments
    square = case(name).results(*(x.reshape(3, 3, *x.shape[1:]) for x in arguments))
    assert same(square, tuple(x.reshape(3, 3, *x.shape[1:]) for x in expected(name)), exact(name))
    strided = case(name).results(*(np.stack([x, x], axis=1)[:, 1] for x in arguments))
    assert same(strided, expected(name), exact(name))
    last = case(name).results(*(x[0] for x in arguments[:-1]), np.stack([arguments[-1][0]] * 5))
    assert same(last, tuple(np.stack([x[0]] * 5) for x in expected(name)), exact(name))
    assert same(case(name).results(*(x[:, None] for x in arguments)), tuple(x[:, None] for x in expected(name)), exact(name))
    assert same(case(name).results(*(x[:0] for x in arguments)), tuple(x[:0] for x in expected(name)))


@pytest.mark.parametrize("name", KERNELS)
def test_arguments_are_given_by_name(name: str) -> None:
    function: Any = case(name).function
    assert same(function(**{port.name: x for port, x in zip(function.inputs, case(name).arguments, strict=True)}), expected(name))


@pytest.mark.parametrize("name", KERNELS)
def test_results_are_written_to_out(name: str) -> None:
    for strided in (False, True):
        targets = tuple(np.full((*x.shape, 2), np.nan)[..., 0] if strided else np.full(x.shape, np.nan) for x in expected(name))
        found = case(name).function(*case(name).arguments, out=targets if len(targets) > 1 else targets[0])
        assert all(a is b for a, b in zip(found if isinstance(found, tuple) else (found,), targets, strict=True))
        assert same(targets, expected(name))


@pytest.mark.parametrize("name", KERNELS)
def test_out_takes_a_tuple(name: str) -> None:
    targets = tuple(np.full(x.shape, np.nan) for x in expected(name))
    case(name).function(*case(name).arguments, out=targets)
    assert same(targets, expected(name))


@pytest.mark.parametrize("name", KERNELS)
def test_an_out_that_does_not_fit_is_refused(name: str) -> None:
    good = expected(name)
    still = np.full(good[0].shape, 0.5)
    still.setflags(write=False)
    rest = good[1:]
    for bad in (np.empty((STATES - 2, *good[0].shape[1:])), np.empty(good[0].shape, dtype=int), still, "text"):
        with pytest.raises(ct.ArgumentError):
            case(name).function(*case(name).arguments, out=(bad, *map(np.empty_like, rest)) if rest else bad)


#: Kernels whose results have the shape of no argument.
UNLIKE = (
    "mass matrix", "energy", "poses", "loop: joint wrenches", "spatial loop: joint wrenches", "other plans: joint wrenches",
    "reduced: basis", "reduced: mass matrix", "reduced: bias force", "robot: jacobian", "robot: mass matrix", "regressor",
    "loop: regressor", "frame acceleration", "frame velocity, driven", "jacobian in regions", "center of mass", "centroidal momentum",
    "centroidal momentum in regions", "gravity force", "coriolis matrix in regions",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in UNLIKE])
def test_out_may_be_an_argument_or_overlap_with_one(name: str) -> None:
    arguments, good = case(name).arguments, expected(name)
    fitting = [(i, k) for i, x in enumerate(arguments) for k, y in enumerate(good) if x.shape == y.shape]
    assert fitting
    for i, k in fitting:
        for shift in (0, 1, 2):
            memory = np.zeros((STATES + shift, *good[k].shape[1:]))
            given = [x.copy() for x in arguments]
            given[i] = memory[:STATES]
            given[i][:] = arguments[i]
            targets = [np.empty_like(x) for x in good]
            targets[k] = memory[shift:]
            case(name).function(*given, out=tuple(targets) if len(targets) > 1 else targets[0])
            assert same(tuple(targets), good)


@pytest.mark.parametrize("name", [*KERNELS, *FUNCTIONS])
def test_what_is_not_finite_stays_in_its_state(name: str) -> None:
    arguments = case(name).arguments
    others = [i for i in range(STATES) if i != 4]
    for value, argument in product((np.nan, np.inf, -np.inf), range(len(arguments))):
        given = [x.copy() for x in arguments]
        given[argument][4, ...] = value
        found = case(name).results(*given)
        assert same(tuple(x[others] for x in found), tuple(x[others] for x in expected(name)), exact(name))
        assert not all(np.isfinite(x[4]).all() for x in found)


@pytest.mark.parametrize("name", KERNELS)
def test_pickles_are_the_same_function(name: str) -> None:
    again = pickle.loads(pickle.dumps(case(name).function))
    assert type(again) is type(case(name).function)
    assert same(again(*case(name).arguments), expected(name))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies_are_the_same_function(name: str, copied: Callable[[Any], Any]) -> None:
    again = copied(case(name).function)
    assert same(again(*case(name).arguments), expected(name))
    assert same(case(name).results(), expected(name))


@pytest.mark.parametrize("name", [*KERNELS, *FUNCTIONS])
def test_threads_call_one_function(name: str) -> None:
    fresh = (FUNCTIONS[name] if name in FUNCTIONS else KERNELS[name][1])()  # which has solved nothing yet
    parts = [slice(i % 4, i % 4 + 1 + i % 5) for i in range(24)]

    def call(at: slice) -> bool:
        return same(fresh.results(*(x[at] for x in fresh.arguments)), tuple(x[at] for x in expected(name)), exact(name))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, parts))
