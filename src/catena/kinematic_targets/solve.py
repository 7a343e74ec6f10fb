"""Positions at which frames, directions and the centre of mass are where they shall be, for many targets at once."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from catena.errors import ArgumentError, ConvergenceWarning
from catena.kernels.named_coordinates import coordinates
from catena.kernels.tracing import frozen, traced_kernel
from catena.kinematic_targets.search import MET, NONE, Search
from catena.kinematic_targets.targets import Target, checked_targets, residual
from catena.loops.groups import loop_groups
from catena.model import Mechanism, Tree
from catena.model.parameters import VALUES_BY_NAME, entry_of, given_values
from catena.model.values import by_name, floats
from catena.native import Kernel
from catena.simulation.arguments import positive
from catena.tolerances import CLOSED

#: Turns of the search in all.
_TURNS = 2000


@dataclass(frozen=True, eq=False)
class InverseKinematics:
    """Positions q (..., nq) for targets with leading axes, and how well they meet them.

    `solved` (...) says where all targets are met. `position_errors` [m] and `rotation_errors` [rad], (..., targets), are distances that
    are left, 0 where a target has none; rows of weight 0 do not count. `turns` (...) is the number of steps that the search took.
    `explain()` says it in words.
    """

    q: np.ndarray
    solved: np.ndarray
    position_errors: np.ndarray
    rotation_errors: np.ndarray
    turns: np.ndarray
    targets: tuple[Target, ...]
    model: Mechanism

    def __repr__(self) -> str:
        return f"<InverseKinematics of {self.model.name!r}: {int(self.solved.sum())} of {self.solved.size} solved>"

    def explain(self, index: Any = ()) -> str:
        """Return in words how well the targets are met, for one of many that `index` gives.

        >>> m = ct.Model("arm")
        >>> m.add("upper", ct.rod(1.0, mass=1.0), ct.Revolute("z", limits=(-1.0, 1.0)))
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     found = ct.inverse_kinematics(m, ct.Target("upper", point=(1, 0, 0), position=(0, 1.5, 0)), starts=0)
        >>> print(found.explain().partition("\\n")[2])
        'upper', position: 0.8518 m away
        upper = 1 is at its limit
        """
        index = index if isinstance(index, tuple) else (index,)
        q = self.q[index]
        if q.ndim != 1:
            raise ArgumentError(f"explain: there are {self.solved.shape} targets; give the index of one, such as {(0,) * self.solved.ndim}")
        turns = int(self.turns[index])
        lines = [f"reached after {turns} steps" if self.solved[index] else f"not reached within {turns} steps"]
        for i, target in enumerate(self.targets):
            far, turned = self.position_errors[(*index, i)], self.rotation_errors[(*index, i)]
            parts = [f"{far:.4g} m away"] if target.kind in ("pose", "position") else []
            parts += [f"{turned:.4g} rad turned"] if target.kind != "position" else []
            lines.append(f"{target.called}, {target.kind}: {', '.join(parts)}")
        for link, at_q, _ in self.model.slices():
            if link.joint.limits is not None:
                ends = zip(self.model.q_names[at_q], q[at_q], link.joint.lower, link.joint.upper, strict=True)
                lines += [f"{name} = {x:.4g} is at its limit" for name, x, low, high in ends if not low < x < high]
        return "\n".join(lines)


def inverse_kinematics(
    m: Mechanism,
    targets: Any,
    guess: Any = None,
    *,
    posture: Any = None,
    fixed: str | Collection[str] = (),
    limits: bool = True,
    tolerance: float = 1e-9,
    starts: int = 40,
    seed: int = 0,
    t: float = 0.0,
    parameters: Mapping[str, Any] | None = None,
) -> InverseKinematics:
    """Return positions at which frames are where they shall be, of one set of targets or of many at once.

    `targets` is a `ct.Target` or several, or a mapping: of frames and bodies to a `ct.Pose`, 4 x 4 matrices, or positions. Their leading
    axes, and those of `guess`, broadcast: a thousand targets are one call, which runs in machine code. All targets are to be met
    together, to a `tolerance` [m, rad]. Where that cannot be, the weighted sum of squares is least, and a `ConvergenceWarning` says so.

    The search begins at `guess`, without one at `m.home`; where it ends at no solution it begins again, at up to `starts` random positions.
    Loops are closed. Positions keep to the limits of the joints, unless `limits` is False; `fixed` names coordinates that stay as in the
    guess. Where solutions are not unique, the one found is near the start; with a `posture` (nq) it goes from there to where the positions
    are nearest to the posture. Driven joints have their positions of the time t [s]. `parameters` has other numbers of the model, by the
    paths of `m.parameters`, with leading axes that broadcast too: each set of targets may have a geometry of its own.

    >>> m = examples.arm()
    >>> m.add_frame("tool", "hand", at=(0, 0, 0.2))
    >>> found = ct.inverse_kinematics(m, {"tool": ct.Pose((0.5, 0.2, 0.6), rpy=(0.0, 2.0, 0.0))})
    >>> found.solved, ct.poses(m, of="tool")(found.q)[:3, 3].round(9)
    (np.True_, array([0.5, 0.2, 0.6]))
    """
    parameters = by_name("inverse_kinematics: parameters", parameters, VALUES_BY_NAME)
    m = frozen(m, "inverse_kinematics").varying(tuple(parameters), "inverse_kinematics")
    values = _numbers(m, parameters)
    wanted = checked_targets(m, targets)
    tolerance = positive("inverse_kinematics: tolerance", tolerance, "give a number above 0 [m, rad]")
    if not isinstance(starts, int) or starts < 0:
        raise ArgumentError(f"inverse_kinematics: starts {starts!r} is not a number of starts; give 0 or more")
    first = m.search_start() if guess is None else _positions(m, "guess", guess)
    held = coordinates(m, (fixed,) if isinstance(fixed, str) else fixed, "inverse_kinematics: fixed")
    pose = None if posture is None else _positions(m, "posture", posture)
    own = (first.shape[:-1], *(() if pose is None else (pose.shape[:-1],)), *(x.shape[:-1] for x in values.values()))
    try:
        batch = np.broadcast_shapes(*(target.batch for target in wanted), *own)
    except ValueError:
        shapes = ", ".join(str(axes) for axes in (*(target.batch for target in wanted), *own))
        what = "targets, guess and parameters" if values else "targets and guess"
        raise ArgumentError(f"inverse_kinematics: leading axes {shapes} of {what} do not agree; give equal ones, or 1") from None
    key = (tuple(target.structure for target in wanted), pose is not None)
    search = m.once("inverse kinematics", key, lambda: Search(m, wanted, pose is not None))

    def lanes(x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x, (*batch, x.shape[-1])).reshape(-1, x.shape[-1])

    constants = np.empty((int(np.prod(batch)), search.constants_size))
    free = np.ones(m.nv)
    free[list(held)] = 0.0
    given: dict[str, Any] = {"t": t, "tolerance": tolerance, "starts": float(starts), "free": free}
    given |= dict(zip(("lower", "upper"), _limits(m, held if limits else range(m.nv)), strict=True))
    given |= {} if pose is None else {"posture": lanes(_inside(m, pose) if limits else pose)}
    numbers = {path: lanes(x) for path, x in values.items()}
    given |= {entry_of(path): x for path, x in numbers.items()}
    for i, target in enumerate(wanted):
        given |= {f"numbers {i}": lanes(target.numbers), f"weights {i}": target.weight}
    for name, value in given.items():
        constants[:, search.constants[name]] = value
    begin = lanes(first)
    others = m.random(np.random.default_rng(seed), max(starts, 1))
    state = search.run(_inside(m, begin, held) if limits else begin, others, constants, _TURNS)
    q = state[:, search.state["least"]]
    q, closed = _closed(m, q, free, state[:, 0] == MET, t, list(numbers.values()))
    far, turned = _errors(m, wanted, q, lanes, t, list(numbers.values()))
    solved = closed & (far <= tolerance).all(axis=1) & (turned <= tolerance).all(axis=1)
    found = InverseKinematics(
        q.reshape(*batch, m.nq), solved.reshape(batch)[()], far.reshape(*batch, -1), turned.reshape(*batch, -1),
        state[:, search.state["turns"]].astype(int).reshape(batch), wanted, m,
    )  # fmt: skip
    if not solved.all():
        _warn(found, closed)
    return found


def _positions(m: Mechanism, what: str, q: Any) -> np.ndarray:
    q = floats(f"inverse_kinematics: {what}", q, f"give (..., {m.nq}) numbers")
    if q.ndim == 0 or q.shape[-1] != m.nq or not np.isfinite(q).all():
        raise ArgumentError(f"inverse_kinematics: {what} has shape {q.shape}; give (..., {m.nq}) finite positions of model '{m.name}'")
    return q


def _limits(m: Mechanism, held: Collection[int]) -> tuple[list[float], list[float]]:
    """Return lower and upper limits of the positions that have some; those of coordinates that are held do not count."""
    lower, upper = [], []
    for link, _, at_v in m.slices():
        for i in range(link.joint.nv) if link.joint.limits is not None else ():
            counts = at_v.start + i not in held
            lower.append(max(-NONE, float(link.joint.lower[i])) if counts else -NONE)
            upper.append(min(NONE, float(link.joint.upper[i])) if counts else NONE)
    return lower, upper


def _inside(m: Mechanism, q: np.ndarray, held: Collection[int] = ()) -> np.ndarray:
    """Return positions (N, nq) moved to the limits of joints where they are beyond them."""
    moved = np.array(q)
    for link, at_q, at_v in m.slices():
        if link.joint.limits is not None:
            free = [i for i in range(link.joint.nv) if at_v.start + i not in held]
            places = [at_q.start + i for i in free]
            moved[..., places] = np.clip(moved[..., places], np.asarray(link.joint.lower)[free], np.asarray(link.joint.upper)[free])
    return moved


def _numbers(m: Mechanism, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return values of numbers of a model by path, along one axis after the leading ones."""
    found = {}
    for path, value in given_values(m, parameters, "inverse_kinematics").items():
        shape = m.parameters()[path].shape
        if path.rpartition(".")[2] in ("lower", "upper"):
            raise ArgumentError(f"inverse_kinematics: limits cannot be parameters, as '{path}'; give m.with_values, or limits=False")
        found[path] = value.reshape(*value.shape[: value.ndim - len(shape)], -1)
    return found


def _closed(
    m: Mechanism, q: np.ndarray, free: np.ndarray, met: np.ndarray, t: float, numbers: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions with their loops closed, and where they are; those that met their targets are closed as they are."""
    closed = np.ones(len(q), dtype=bool)
    if m.has_loops:
        q, rest = q.copy(), np.flatnonzero(~met)
        for loops in loop_groups(m.timed(t)) if len(rest) else ():
            at, own = (rest[:, None], loops.positions), free[loops.columns] > 0.0
            moved, values = loops.settle(np.concatenate([q[at], *(x[rest] for x in numbers)], axis=1), own)
            closed[rest] &= loops.closed(moved, values, CLOSED)
            q[at] = moved[:, : len(loops.positions)]
    return q, closed


def _errors(
    m: Mechanism, targets: tuple[Target, ...], q: np.ndarray, lanes: Any, t: float, numbers: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances [m] and angles [rad] that are left, (N, targets)."""
    shapes = {f"target{i}": (target.numbers.shape[-1],) for i, target in enumerate(targets)}

    def make() -> Kernel:
        def function(tree: Tree, q: Any, *numbers: Any) -> Any:
            return tuple(residual(tree, q, target, x).values for target, x in zip(targets, numbers, strict=True))

        outputs = tuple(f"residual{i}" for i in range(len(targets)))
        return traced_kernel(m, "residuals of targets", ("q", *shapes), outputs, function, shapes=shapes)

    kernel = m.once("residuals of targets", tuple(target.structure for target in targets), make)
    time = (np.full(len(q), t),) if m.driven_names else ()
    given = (x.reshape(-1, *m.parameters()[path].shape) for path, x in zip(m.varied, numbers, strict=True))
    results = kernel(*time, q, *(lanes(target.numbers) for target in targets), *given)
    far, turned = np.zeros((len(q), len(targets))), np.zeros((len(q), len(targets)))
    for i, (target, values) in enumerate(zip(targets, results if isinstance(results, tuple) else (results,), strict=True)):
        values = np.where(target.weight > 0.0, values, 0.0)
        if target.kind in ("pose", "position"):
            far[:, i] = np.linalg.norm(values[:, -3:], axis=1)
        if target.kind != "position":
            turned[:, i] = np.linalg.norm(values[:, :3], axis=1)
    return far, turned


def _warn(found: InverseKinematics, closed: np.ndarray) -> None:
    count, total = int(np.size(found.solved) - found.solved.sum()), found.solved.size
    size = np.maximum(found.position_errors, found.rotation_errors).max(axis=-1)
    worst = np.unravel_index(int(np.argmax(np.where(found.solved, -1.0, size))), size.shape) if size.ndim else ()
    which = "the targets" if total == 1 else f"{count} of {total} sets of targets"
    place = f", at {tuple(map(int, worst))}" if worst else ""
    opened = "" if closed.all() else f"; at {int((~closed).sum())} of them loops do not close"
    said = found.explain(worst).split("\n")
    warnings.warn(
        f"inverse_kinematics: {which} could not be reached{opened}; the worst{place}: {'; '.join(said[1:])}; give other targets, a nearer "
        "guess, or more starts",
        ConvergenceWarning,
        stacklevel=3,
    )
