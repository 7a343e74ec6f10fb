"""Runs against closed forms, differences and each other: contacts on the way, pulses, other branches, canonical momenta, similarity."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from tests import mechanisms, test_branches
from tests.explorations.report import Report, near

import catena as ct
from catena.loops.mobility import conditioning

Rng = np.random.Generator

ADAPTIVE = ("auto", "dormand-prince", "bogacki-shampine", "rang-angermann", "dop853")

SYMPLECTIC = ("symplectic-euler", "stormer-verlet", "symplectic-midpoint", "symplectic-gauss-4", "symplectic-gauss-6")


def guarded(explore: Callable[[Report, Rng], None], seed: int) -> Report:
    """Return what an exploration of a seed shows; what it raises is a failure."""
    report = Report(explore.__name__, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            explore(report, np.random.default_rng([seed, 23]))
        except Exception:
            report.fail(explore.__name__, traceback.format_exc(limit=-4))
    report.counts[explore.__name__] += 1
    return report


# contacts and stops that adaptive steps come to


@cache
def _balls(penetration: float) -> ct.Model:
    m = ct.Model("balls", gravity=(0, 0, 0))
    for name in ("one", "two"):
        m.add(name, ct.sphere(0.1, mass=1.0), ct.Free())
    m.add_contact("click", "one", against="two", penetration=penetration, friction=0.0, stiffness=1e4 / penetration * 1e-3, dissipation=0.0)
    return m


def collisions(report: Report, rng: Rng) -> None:
    """Two smooth balls that meet, head on or not: momentum and energy are kept, and they part along the line of their centres."""
    m = _balls(float(rng.choice([1e-3, 1e-4])))
    speed, miss, distance = float(rng.choice([0.1, 1.0, 10.0])), rng.uniform(0.0, 0.19), rng.uniform(0.3, 30.0)
    integrator = str(rng.choice(ADAPTIVE))
    q0, v0 = m.neutral(), np.zeros(12)
    q0[0], q0[1] = -distance, miss
    v0[3] = speed
    if rng.random() < 0.5:  # the other one meets it
        v0[9] = -float(rng.uniform(0.0, speed))
    closing = v0[3] - v0[9]
    until = (distance / closing) * rng.uniform(1.5, 100.0)
    rtol = float(rng.choice([1e-6, 1e-8, 1e-10]))
    run = ct.simulate(m, q0, v0, until=until, integrator=integrator, rtol=rtol)
    before, after = (v[3:6] - v[9:12] for v in (run.v[0], run.v[-1]))  # nothing turns
    # smooth, elastic: the velocity along the line of centres is reversed; the deeper they go, the more this line turns
    normal = np.array([np.sqrt(0.2**2 - miss**2), -miss, 0.0]) / 0.2
    expected = before - 2.0 * (before @ normal) * normal
    if np.abs(after - expected).max() > closing * (0.01 + 3.0 * _depth(m, closing)):
        what = f"{integrator}: {before} became {after}, not {expected}"
        report.fail("collisions", f"{what}, until {until:.3g} s at {closing:.3g} m/s, {miss=:.3f}")
    if abs(np.linalg.norm(after) / closing - 1.0) > 1e-3 + 3e3 * rtol:  # a step over the end of the contact has a larger error
        report.fail("collisions", f"{integrator}: relative speed {closing:.6g} became {np.linalg.norm(after):.6g} m/s")


def _depth(m: ct.Model, closing: float) -> float:
    """Return how deep balls of 1 kg go, relative to their size."""
    return closing * np.sqrt(0.5 / m.contacts[0].stiffness) / 0.1


@cache
def _bouncer(light: bool) -> ct.Model:
    m = ct.Model("bouncer", gravity=(0, 0, -9.81 if light else 0.0))
    m.add("ball", ct.sphere(0.05, mass=0.01 if light else 2.0), ct.Prismatic("z"))
    m.add_contact("floor", "ball", friction=0.0, dissipation=0.0, penetration=1e-4, stiffness=1e3 if light else 1e5)
    return m


def bounces(report: Report, rng: Rng) -> None:
    """A ball that flies to the floor comes back with its energy, whatever the steps; and so does a slide from its stop."""
    stop, light = rng.random() < 0.5, bool(rng.random() < 0.5)
    integrator = str(rng.choice(ADAPTIVE))
    height, speed = rng.uniform(0.1, 20.0), float(rng.choice([0.5, 5.0, 50.0]))
    if stop:
        m = ct.Model("slide", gravity=(0, 0, 0))
        m.add("slide", ct.point_mass(0.5), ct.Prismatic("x", limits=(-height, 1e6), stop_stiffness=1e5, stop_damping=0.0))
        q0, gravity = 0.0, 0.0
    else:
        m, q0 = _bouncer(light), 0.05 + height
        gravity = 9.81 if light else 0.0
    impact = np.sqrt(speed**2 + 2.0 * gravity * height)
    fall = (impact - speed) / gravity if gravity else height / speed
    stiffness = 1e5 if stop else m.contacts[0].stiffness
    touching = np.pi * np.sqrt(m.links[0].body.mass / stiffness)
    until = 2.0 * touching + fall * (rng.uniform(1.05, 1.5) if gravity else 10.0 ** rng.uniform(0.05, 2.0))
    run = ct.simulate(m, [q0], [-speed], until=until, integrator=integrator)
    time = until - fall - touching
    expected = impact - gravity * time
    if abs(run.v[-1, 0] - expected) > 0.02 * impact + gravity * 0.01:
        what = f"{integrator}, {stop=}, {light=}: at {run.v[-1, 0]:.6g} m/s, not {expected:.6g}"
        report.fail("bounces", f"{what}, at {until:.4g} s from {height:.3g} m")
    kinetic = 0.5 * m.links[0].body.mass * impact**2
    change = np.ptp(np.sum(ct.energy(m)(run.q, run.v), axis=0))
    if change > 1e-3 * kinetic:
        report.fail("bounces", f"{integrator}, {stop=}, {light=}: energy changes by {change / kinetic:.2g} of it")


# drops, at fixed steps


#: What is dropped: a shape, and its size in metres.
DROPPED: dict[str, tuple[Callable[[], ct.Body], float]] = {
    "sphere": (lambda: ct.sphere(0.1, mass=1.0), 0.1),
    "box": (lambda: ct.box(0.2, 0.3, 0.1, mass=3.0), 0.2),
    "plate": (lambda: ct.box(0.5, 0.4, 0.01, mass=0.5), 0.3),
    "cylinder": (lambda: ct.cylinder(0.2, 0.1, mass=1.0), 0.15),
    "coin": (lambda: ct.cylinder(0.005, 0.05, mass=0.05), 0.05),
    "marble": (lambda: ct.sphere(0.01, mass=0.01), 0.01),
}


@cache
def dropped(kind: str, exponent: float = 1.0, hinged: bool = False) -> ct.Model:
    """Return a free body above the floor; with an arm on a hinge between stops where it is `hinged`."""
    m = ct.Model(kind)
    body, size = DROPPED[kind]
    m.add("body", body(), ct.Free())
    if hinged:
        hand = ct.sphere(0.3 * size, mass=0.3 * body().mass)
        m.add("arm", hand, ct.Revolute("y", limits=(-1.0, 1.0)), parent="body", at=(1.5 * size, 0, 0))
        m.add_contact("hand", "arm", exponent=exponent)
    m.add_contact("floor", "body", exponent=exponent)
    return m


def drawn_drops(m: ct.Model, kind: str, rng: Rng, count: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return states of spinning bodies above the floor, and numbers of the contact for each."""
    size = DROPPED[kind][1]
    q, v = np.zeros((count, m.nq)), rng.normal(size=(count, m.nv))
    q[:, 2] = size * rng.uniform(3.0, 15.0, count)
    q[:, 3:7] = rng.normal(size=(count, 4))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1)[:, None]
    v[:, :3] *= rng.choice([0.0, 1.0, 10.0, 30.0], (count, 1))
    v[:, 3:6] *= rng.choice([0.0, 1.0, 3.0], (count, 1))
    return q, v, {
        "floor.friction": rng.uniform(0.0, 1.5, count), "floor.stiction": rng.choice([0.0, 0.3], count),
        "floor.stiffness": m.contacts[-1].stiffness * 10.0 ** rng.uniform(-1.0, 1.0, count),
        "floor.dissipation": np.array([0.0, 0.5, ct.dissipation_of(0.2), ct.dissipation_of(0.01)])[rng.integers(4, size=count)],
        "floor.slip_speed": 10.0 ** rng.uniform(-4.0, -2.0, count),
    }  # fmt: skip


def energies(m: ct.Model, runs: ct.Rollout, numbers: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the energy that each trajectory has above its start at most, and above what it had before, relative to that of the start."""
    kinetic, potential = ct.energy(m, parameters="floor.stiffness")(runs.q, runs.v, numbers["floor.stiffness"][:, None])
    total = kinetic + potential
    scale = total[:, 0] - potential.min(axis=1)
    return (total.max(axis=1) - total[:, 0]) / scale, (total - np.minimum.accumulate(total, axis=1)).max(axis=1) / scale


def drops(report: Report, rng: Rng) -> None:
    """Spinning bodies that fall on a floor at steps of 1 to 5 ms gain no more than 1 % of their energy, or the run warns of it."""
    kind, exponent, hinged = str(rng.choice(list(DROPPED))), float(rng.choice([1.0, 1.5])), bool(rng.random() < 0.3)
    m, step = dropped(kind, exponent, hinged), float(rng.choice([1e-3, 2e-3, 5e-3]))
    q, v, numbers = drawn_drops(m, kind, rng, 50)
    steps = round(0.6 / step)
    runs = ct.rollout(m, q, v, None, step, steps, parameters=numbers)
    what = f"{kind}, {hinged=}, {exponent=}, {step=}"
    report.counts["dropped bodies"] += len(q)
    turned = step * np.linalg.norm(np.nan_to_num(runs.v[..., :3]), axis=-1).max(axis=1)  # by a step, at most [rad]
    if (runs.failed & (turned < 1.0)).any():
        report.fail("drops", f"{what}: {int(runs.failed.sum())} failed, {runs.reason[runs.failed][0]}")
    report.counts["dropped bodies that spin too fast for a step, and fail"] += int(runs.failed.sum())
    gains, rises = energies(m, runs, numbers)
    gains, rises = (np.where(runs.failed, 0.0, x) for x in (gains, rises))
    report.counts[f"dropped bodies that gain energy: {kind}"] += int((gains > 0.01).sum())
    for i in np.flatnonzero(np.maximum(gains, rises) > 0.01)[:1]:
        one = m.with_values({path: x[i] for path, x in numbers.items()})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = ct.simulate(one, q[i], v[i], until=steps * step, step=step, integrator="rang-angermann")
        if not np.array_equal(run.q[-1], ct.rollout(one, q[i], v[i], None, step, steps, integrator="rang-angermann").q[-1]):
            report.fail("drops", f"{what}: drop {i} ends elsewhere in ct.simulate")
        rise = (run.total_energy - np.minimum.accumulate(run.total_energy)).max() / (run.total_energy[0] - run.energy[1].min())
        if rise > 0.01 and not any(issubclass(warning.category, ct.StiffnessWarning) for warning in caught):
            report.fail("drops", f"{what}: drop {i} rises by {rise:.3g} of its energy without a warning")


# forces that change in time


def pulses(report: Report, rng: Rng) -> None:
    """A slide at rest under pulses of force goes as fast as these say, however long the run."""
    count, span = int(rng.integers(1, 4)), float(10.0 ** rng.uniform(-1.0, 3.0))
    starts = np.sort(rng.uniform(0.0, 0.9 * span, count))
    widths = np.minimum(span * 10.0 ** rng.uniform(-6.0, -1.0, count), np.diff([*starts, span]))
    heights = rng.choice([-1.0, 1.0], count) / widths * rng.uniform(0.5, 2.0, count)
    kind, form, integrator = int(rng.integers(6)), int(rng.integers(4)), str(rng.choice([*ADAPTIVE, "scipy:RK45", "scipy:LSODA"]))

    def force(t: Any, *_: Any) -> Any:
        total = 0.0 * t
        for a, w, height in zip(starts, widths, heights, strict=True):
            if form == 0:
                total = total + height * np.where((t >= a) & (t < a + w), 1.0, 0.0)
            elif form == 1:
                total = total + height * (np.where(t < a + w, 1.0, 0.0) - np.where(t < a, 1.0, 0.0))
            elif form == 2:  # by operations that have conditions in them
                total = total + height * np.heaviside(0.5 * w - abs(t - (a + 0.5 * w)), 0.0)
            else:  # not linear in time
                total = total + height * np.where((np.exp(a / span) < np.exp(t / span)) & ((t - a) * (t - a - w) < 0.0), 1.0, 0.0)
        return total

    m = ct.Model("slide", gravity=(0, 0, 0))
    m.add("slide", ct.point_mass(2.0), ct.Prismatic("x"))
    options: dict[str, Any] = {}
    if kind < 2:
        m.add_force("pulse", lambda t, q, v: [force(t)])
    elif kind < 4:
        options["controller"] = lambda t, q, v: [force(t)]
    elif kind == 4:
        m.add_point_force("pulse", "slide", (0, 0, 0), lambda t, position, velocity: np.stack([force(t), 0.0 * t, 0.0 * t]))
    else:
        options["wrenches"] = {"slide": lambda t, q, v: [0.0, 0.0, 0.0, force(t), 0.0, 0.0]}
    run = ct.simulate(m, [0.0], until=span, integrator=integrator, **options)
    expected = (heights * widths).sum() / 2.0
    if abs(run.v[-1, 0] - expected) > 1e-6 * np.abs(heights * widths).sum():
        what = f"{integrator}, {kind=}, {form=}: {run.v[-1, 0]:.9g} m/s, not {expected:.9g}"
        report.fail("pulses", f"{what}; {span=:.4g}, {starts=}, {widths=}")
    report.counts["pulses of force"] += count


# states on other branches than the home, and derivatives there


BRANCHES: dict[str, Callable[[], ct.Model]] = {
    "hub of 3": lambda: test_branches.hub(3), "two rhombi": test_branches.two_rhombi, "four cranks": lambda: test_branches.cranks(4),
}  # fmt: skip


def branches(report: Report, rng: Rng) -> None:
    """Steps, rollouts, runs and gradients agree at states of any rank, wherever the home is."""
    name = str(rng.choice(list(BRANCHES)))
    m = BRANCHES[name]()
    angles = (0.0, np.pi, np.pi / 2, -np.pi / 2, np.pi / 3)

    def configuration() -> np.ndarray:
        return m.assemble(guess=rng.choice(angles, m.nq) + rng.normal(scale=0.2, size=m.nq) * rng.integers(0, 2))

    try:
        m.home, q = configuration(), configuration()
    except ct.ModelError:
        report.counts["branches that do not close"] += 1
        return
    found = m.mobility(q)
    if found.singular or conditioning(m, q)[1] < 1e-4:  # digits are lost
        report.counts["branches at singular states"] += 1
        return
    report.counts["branches of another freedom"] += found.freedom != m.mobility(m.home).freedom
    v = m.project_velocity(q, rng.normal(size=m.nv))
    u = rng.normal(size=(6, m.nv))
    integrator = str(rng.choice(["rk4", "gauss-legendre-4", "midpoint", "rang-angermann"]))
    runs = ct.rollout(m, q, v, u, 1e-3, 6, integrator=integrator)
    if runs.failed.any():
        report.counts[f"branches: failed, {runs.reason}"] += 1
        return
    step, state = ct.stepper(m, 1e-3, integrator=integrator), (q, v)
    for row in u:
        state = step(*state, row)
    if not near(np.concatenate(state), np.concatenate([runs.q[-1], runs.v[-1]])) < 1e-9:
        report.fail("branches", f"{name}, {integrator}: stepper and rollout differ, home {m.home.tolist()}, q {q.tolist()}")
        return
    weights = rng.normal(size=(2, m.nv))

    def cost(t: Any, q: Any, v: Any) -> Any:
        return weights[0] @ q + weights[1] @ v

    gradient = ct.rollout_gradient(m, q, v, u, step=1e-3, steps=6, final_cost=cost, integrator=integrator)
    change = rng.normal(size=u.shape)
    ends = [ct.rollout(m, q, v, u + sign * change, 1e-3, 6, integrator=integrator) for sign in (1.0, -1.0)]
    values = [cost(0.0, end.q[-1], end.v[-1]) for end in ends]
    slope, expected = float(np.sum(gradient.controls * change)), 0.5 * (values[0] - values[1])
    scale = np.linalg.norm(gradient.controls) * np.linalg.norm(change)
    if not abs(slope - expected) < 1e-4 * scale:
        where = f"home {m.home.tolist()}, q {q.tolist()}"
        report.fail("branches", f"{name}, {integrator}: slope {slope:.8g}, differences {expected:.8g}, {where}")


# canonical momenta


@cache
def _tree(seed: int) -> ct.Model:
    kinds = ("revolute", "prismatic", "spherical", "universal", "free", "helical", "planar")
    return mechanisms.tree(seed, 3, kinds, options=bool(seed % 2))


def symplectic(report: Report, rng: Rng) -> None:
    """Steps of canonical momenta: the stepper is the rollout, parameters are the model's, and gradients equal differences."""
    m, integrator = _tree(int(rng.integers(12))), str(rng.choice(SYMPLECTIC))
    q, v, tau = mechanisms.state(m, rng)
    path = str(rng.choice(["gravity", "body0.mass", "body1.com"]))
    size = m.parameters()[path].value
    value = size * rng.uniform(0.8, 1.2)
    u = np.tile(tau, (4, 1))
    options = {"integrator": integrator}
    runs = ct.rollout(m, q, v, u, 2e-3, 4, parameters={path: value}, **options)
    if runs.failed.any():
        report.counts[f"symplectic: failed, {runs.reason}"] += 1
        return
    rebuilt = ct.rollout(m.with_values({path: value}), q, v, u, 2e-3, 4, **options)
    body = m.body_names[-1]
    step = ct.stepper(m, 8e-3, substeps=4, parameters=path, wrenches=body, **options)
    state = step(q, v, tau, **{path: value, "wrenches": np.zeros((1, 6))})
    for what, (a, b) in {"values": (rebuilt.q[-1], rebuilt.v[-1]), "stepper": state}.items():
        if not (near(a, runs.q[-1]) < 1e-9 and near(b, runs.v[-1]) < 1e-8):
            report.fail("symplectic", f"{integrator}, {path}: {what} differ by {near(a, runs.q[-1]):.1e}, {near(b, runs.v[-1]):.1e}")
    weights = rng.normal(size=m.nv)
    gradient = ct.rollout_gradient(
        m, q, v, u, step=2e-3, steps=4, parameters={path: value}, final_cost=lambda t, q, v: weights @ v, **options
    )
    change = rng.normal(size=u.shape)
    ends = [ct.rollout(m, q, v, u + sign * 1e-3 * change, 2e-3, 4, parameters={path: value}, **options).v[-1] for sign in (1.0, -1.0)]
    slope, expected = np.sum(gradient.controls * change), weights @ (ends[0] - ends[1]) / 2e-3
    if not abs(slope - expected) < 1e-5 * np.linalg.norm(gradient.controls) * np.linalg.norm(change) + 1e-9:
        report.fail("symplectic", f"{integrator}: slope by controls {slope:.9g}, differences {expected:.9g}")
    step_by = 1e-5 * np.maximum(np.abs(value), 0.1) * rng.normal(size=np.shape(value))
    ends = [ct.rollout(m, q, v, u, 2e-3, 4, parameters={path: value + sign * step_by}, **options).v[-1] for sign in (1.0, -1.0)]
    slope, expected = np.sum(gradient.parameters[path] * step_by), 0.5 * weights @ (ends[0] - ends[1])
    if not abs(slope - expected) < 1e-4 * (np.linalg.norm(gradient.parameters[path]) * np.linalg.norm(step_by)) + 1e-12:
        report.fail("symplectic", f"{integrator}: slope by {path} {slope:.9g}, differences {expected:.9g}")


# similarity


def scales(report: Report, rng: Rng) -> None:
    """A model at another scale moves alike: lengths as L, masses as M, times as the root of L under the same gravity."""
    m = _scalable(rng)
    length, mass = float(rng.choice([0.1, 0.5, 3.0, 20.0])), float(rng.choice([0.01, 0.3, 5.0]))
    larger = m.copy()
    larger.scale(length, mass)
    time = np.sqrt(length)
    q_units, v_units = (np.array([length if unit == "m" else 1.0 for unit in units]) for units in (m.q_units, _of_v(m)))
    q, v, tau = mechanisms.state(m, rng)
    work = mass * length  # force times length, at the same gravity, without the unit of the coordinate
    forces = work * np.where(v_units == 1.0, length, 1.0)
    a = ct.forward_dynamics(m)(0.0, q, v, tau)
    b = ct.forward_dynamics(larger)(0.0, q * q_units, v * v_units / time, tau * forces / length)
    if not near(b * length / v_units, a) < 1e-9:
        report.fail("scales", f"accelerations differ by {near(b * length / v_units, a):.1e} at {length=}, {mass=}, {m.q_names}")


def _of_v(m: ct.Model) -> list[str]:
    return ["m" if unit == "m/s" else "rad" for unit in m.v_units]


def _scalable(rng: Rng) -> ct.Model:
    kinds = [kind for kind in mechanisms.JOINTS if kind not in ("cam", "helicoid", "plate")]
    m = mechanisms.tree(rng, int(rng.integers(2, 5)), kinds, options=True)
    m.add("driven", mechanisms.body(rng), ct.Driven(ct.Revolute("x"), ct.Harmonic(offset=0.3)), parent=m.body_names[-1])
    if rng.random() < 0.5:
        m.add("stopped", mechanisms.body(rng), ct.Prismatic("z", limits=(-0.01, 0.01), friction=0.3), parent="driven")
    a, b = m.body_names[0], m.body_names[-1]
    if rng.random() < 0.5:
        m.add_spring("coil", a, "ground", (0.1, 0.2, 0.3), (1, 1, 1), stiffness=30.0, damping=0.4, length=0.3, cubic=2.0, slack=True)
    if rng.random() < 0.5:
        m.add_bushing("rubber", a, b, (0.1, 0, 0), stiffness=(3.0, 4.0, 5.0), damping=0.3, turning_stiffness=2.0, turning_damping=0.1)
    if rng.random() < 0.5:
        m.add_contact("floor", b, ct.Geometry("sphere", (0.3,)), height=0.4, stiction=0.2, exponent=float(rng.choice([1.0, 1.5])))
    return m


EXPLORATIONS: dict[str, Callable[[Report, Rng], None]] = {
    "collisions": collisions, "bounces": bounces, "drops": drops, "pulses": pulses, "branches": branches,
    "symplectic": symplectic, "scales": scales,
}  # fmt: skip
