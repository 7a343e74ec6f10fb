"""Assembly of mechanisms with loops: configurations that close all loops, and velocities that keep them closed.

Both work on the model's own coordinates, with the rank of the constraints: redundant ones, as in a planar loop in space, do no harm.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from catena.errors import AssemblyWarning, LimitWarning, ModelError
from catena.formulations.loops.basic_constraints import Ends, closure_residual
from catena.formulations.loops.closure_kinematics import ClosureKinematics
from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion
from catena.formulations.mass.composite_body import mass_matrix
from catena.graph import Trace
from catena.loops.groups import STARTS, LoopGroup, LoopResiduals, alike_groups, loop_groups, null_part
from catena.loops.scaling import coordinate_units, loop_sizes, loop_units, mechanism_size
from catena.model import Helical, Joint, Mechanism, Pose
from catena.model.driven_trees import with_driven_at
from catena.model.motions import Given
from catena.model.placed import PlacedClosure
from catena.model.tree import Tree
from catena.model.values import array, floats, leading_axes, number
from catena.native import Kernel, compile_graph
from catena.spatial import Rigid, quaternion_exp, rotation
from catena.tolerances import CLOSED, LOOSE, MASSLESS, NEARLY, RANK, SEARCH

#: Newton's steps by which a joint frame takes up what is left of a loop, or a coordinate goes to a value; a step to a generic position.
_NEWTON, _AWAY = 6, 0.1

#: A step of a walk moves no coordinate further than the first [rad, or sizes of the mechanism], and a walk that needs shorter steps than
#: the second ends. What brings a step back onto the loops is at most the third, a part of the step: less than to another branch. The last
#: is the number of steps after which a walk is given up.
_LONGEST, _SHORTEST, _ASIDE, _PACES = 0.3, 1e-4, 0.2, 300


def loop_residuals(m: Mechanism, q: Any) -> LoopResiduals:
    """Return how far each loop and coupling of a mechanism is from being closed at q; those that share joints are together."""
    q, names = np.asarray(q, dtype=float), m.once("loop names", (), lambda: tuple(x for loops in loop_groups(m) for x in loops.names))
    sizes = np.zeros(len(names))
    for alike in alike_groups(m):
        (own,), which = alike.different(q[alike.positions])
        sizes[alike.members] = alike.loops.residuals(alike.loops.residual_at(own)[0])[which]
    return LoopResiduals(names, sizes)


def closing(m: Mechanism, what: str, q: Any) -> np.ndarray:
    """Return positions as an array, or refuse those that leave a loop open."""
    q = array(what, q, (m.nq,))
    if not loop_residuals(m, q).sizes.max(initial=0.0) <= LOOSE:
        raise ModelError(left_open(m, what, q))
    return q


def left_open(m: Mechanism, what: str, q: Any) -> str:
    """Return what is said of positions that leave a loop open."""
    found, time = loop_residuals(m, q), f", t={m.instant:g}" if m.driven_names else ""
    return (
        f"{what} leaves loop '{found.worst}' of model '{m.name}' open, by {found.sizes.max():.2g} of its size or rad; give positions "
        f"that close the loops, by m.assemble(guess=q{time})"
    )


def assemble(m: Mechanism, guess: Any = None, fixed: Mapping[str, float] | None = None, t: float | None = None) -> np.ndarray:
    """Return a configuration that closes all loops at a time, as `Model.assemble` describes; warn of limits that it leaves."""
    m, held = m.timed(t), fixed or {}
    q = _assembled(m, guess, held)
    _check_limits(m, q, guess, held)
    return q


#: Steps in which a mechanism is led from its own geometry to others.
_LED = 8


def assemble_all(m: Mechanism, values: Mapping[str, np.ndarray], guess: Any, fixed: Mapping[str, float], t: float | None) -> np.ndarray:
    """Return configurations (..., nq) that close all loops, one for each geometry: values of numbers by path, with leading axes.

    They are led from the mechanism's own geometry, where this closes. A geometry that does not go together is NaN, with a warning.
    """
    known, now = m.parameters(), m.timed(t)
    batch = np.broadcast_shapes(*(value.shape[: value.ndim - len(known[path].shape)] for path, value in values.items()))
    rows = [np.broadcast_to(value, (*batch, *known[path].shape)).reshape(-1, known[path].value.size) for path, value in values.items()]
    target, own = np.concatenate(rows, axis=1), np.concatenate([known[path].value.ravel() for path in values])
    varied = now.varying(tuple(values), "assemble")
    start = _assembled(now, guess, fixed)
    q = np.concatenate([np.tile(start, (len(target), 1)), np.tile(own, (len(target), 1))], axis=1)
    closed = np.full(len(q), not m.driven_names)
    held = [_plain(m, name)[1] for name in fixed]
    for share in np.linspace(0.0, 1.0, _LED + 1)[1:] if closed.any() else ():
        q[:, m.nq :] = own + share * (target - own)
        for loops in loop_groups(varied):
            then, left = loops.settle(q[:, [*loops.positions, *range(m.nq, q.shape[1])]], ~np.isin(loops.columns, held))
            q[:, loops.positions] = then[:, : len(loops.positions)]
            closed &= (share < 1.0) | loops.closed(then, left)
    found = q[:, : m.nq]
    for i in np.flatnonzero(~closed):
        changed = {path: row[i].reshape(known[path].shape) for (path, row) in zip(values, rows, strict=True)}
        try:
            found[i] = _assembled(m.with_values(changed).timed(t), found[i], fixed)
        except ModelError as error:
            found[i] = np.nan
            where = f"geometry {tuple(map(int, np.unravel_index(i, batch)))}" if batch else "the geometry"
            warnings.warn(f"assemble: {where}: {error}", AssemblyWarning, stacklevel=3)
    return found.reshape(*batch, m.nq)


def _assembled(m: Mechanism, guess: Any, fixed: Mapping[str, float]) -> np.ndarray:
    """Return a configuration that closes all loops, near a guess and with coordinates that are fixed, or say why there is none.

    The loops are closed at the guess, and the fixed coordinates led from there to their values: so the result is on the branch of
    `assemble(m, guess)` as far as that reaches. A guess that is nearly closed with the fixed values in it is taken as it is. Loops
    that share no joints are closed one after the other. Without a guess the search begins at home.

    Configurations within the limits of the joints are sought first, from the nearest such start, and others only where there is none. A
    guess that closes the loops is taken with the limits that it leaves.
    """
    q = m.search_start() if guess is None else array("assemble: guess", guess, (m.nq,)).copy()
    if guess is None and m.has_loops and m.instant:
        q = _led(m, q)
    places = {name: _plain(m, name) for name in fixed}
    values = {name: number(f"assemble: {name}", value) for name, value in fixed.items()}
    if m.has_loops:
        q = _assembled_groups(m, q, guess is None, {places[name]: (name, values[name]) for name in fixed})
    for name, (position, _) in places.items():
        q[position] = values[name]
    return q


def _assembled_groups(m: Mechanism, q: np.ndarray, own: bool, fixed: dict[tuple[int, int], tuple[str, float]]) -> np.ndarray:
    """Return positions that close all groups of loops; those that are alike and begin at the same positions, once."""
    q, groups, failed, held = q.copy(), loop_groups(m), {}, {}
    if fixed:
        owner = {velocity: n for n, loops in enumerate(groups) for velocity in loops.columns}
        for (position, velocity), value in fixed.items():
            held.setdefault(owner.get(velocity), {})[position, velocity] = value
    for alike in alike_groups(m):
        here = np.array([i for i, n in enumerate(alike.numbers) if n not in held], dtype=int)
        if not len(here):
            continue
        (starts,), which = alike.different(q[alike.positions[here]]) if len(here) > 1 else ([q[alike.positions[here]]], here * 0)
        ends, values, found = _searched(alike.loops, starts)
        q[alike.positions[here]] = ends[which]
        failed |= {alike.numbers[i]: values[k] for i, k in zip(here, which, strict=True) if not found[k]}
    for n in sorted({*failed, *held} - {None}):
        loops = groups[n]
        if n in failed:
            raise ModelError(_opened(m, loops, failed[n], "", []))
        q[loops.positions] = _assemble(m, loops, q[loops.positions], own, _local(loops, held[n]))
    return q


def _local(loops: LoopGroup, fixed: dict[tuple[int, int], tuple[str, float]]) -> dict[tuple[int, int], tuple[str, float]]:
    """Return coordinates that are fixed by their places among those of a group."""
    return {(loops.positions.index(position), loops.columns.index(velocity)): value for (position, velocity), value in fixed.items()}


def _searched(loops: LoopGroup, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what `_search` finds from each of several starts (N, nq): configurations, their residuals, and which of them are closed."""
    if len(starts) == 1:
        q, values, found = _search(loops, starts[0], loops.everything)
        return q[None], values[None], np.array([found])
    q, (values, _) = np.empty_like(starts), loops.residual_at(starts)
    as_given, bounded = np.abs(values).max(axis=1) <= NEARLY, loops.limited & ~loops.closed(starts, values)
    for inside in (False, True):  # as a search begins; most of them end here
        some = np.flatnonzero(bounded == inside)
        begun = loops.integrate(starts[some], np.zeros((len(some), len(loops.columns))))
        begun = loops.within_limits(begun, loops.everything) if inside else begun
        q[some], values[some] = loops.settle(begun, loops.everything, bounded=inside)
    found = loops.closed(q, values)
    found[found] = as_given[found] | loops.regular(q[found])
    for i in np.flatnonzero(~found):
        q[i], values[i], found[i] = _search(loops, starts[i], loops.everything)
    return q, values, found


def _assemble(m: Mechanism, loops: LoopGroup, given: np.ndarray, own: bool, fixed: dict[tuple[int, int], tuple[str, float]]) -> np.ndarray:
    """Return positions of a group of loops that close them, with coordinates fixed at values: their places there, names and values.

    It is sought from the one that is given, which is the model's `own` start or a user's guess.
    """
    start, free, places = given.copy(), loops.everything.copy(), [*fixed]
    for (position, velocity), (_, value) in zip(places, fixed.values(), strict=True):
        start[position] = value
        free[velocity] = False
    stopped, led = "", None
    if fixed and (own or np.abs(loops.residual(start)[0]).max() > NEARLY):
        q, _, found = _search(loops, given, loops.everything)
        if found:
            q = _walk(loops, q, start, places, free)
            if all(q[position] == start[position] for position, _ in places):
                if np.array_equal(loops.within_limits(q[None], free)[0], q):
                    return q
                led = q  # to where limits are left: the mechanism may go together elsewhere
            reached = ", ".join(f"{name} = {q[position]:.4g}" for (name, _), (position, _) in zip(fixed.values(), places, strict=True))
            stopped = f"led there from the guess it stops at {reached}, and "
    if led is not None:
        q, _, found = loops.search(start, free, bounded=True)
        return q if found else led
    q, values, found = _search(loops, start, free)
    if found:
        return q
    raise ModelError(_opened(m, loops, values, stopped, [f"{name} = {value:g}" for name, value in fixed.values()]))


def _check_limits(m: Mechanism, q: np.ndarray, guess: Any, held: Mapping[str, float]) -> None:
    """Warn of coordinates that were moved beyond their limits to close loops; those that the user put there are not named."""
    given, beyond = m.search_start() if guess is None else np.asarray(guess, dtype=float), []
    for link, at, _ in m.slices():
        if link.joint.limits is not None:
            limits = zip(m.q_names[at], q[at], given[at], link.joint.lower, link.joint.upper, strict=True)
            beyond += [
                f"{name} = {x:.4g}, outside {low:.4g} to {high:.4g}"
                for name, x, before, low, high in limits
                if name not in held and x != before and not low <= x <= high
            ]
    if beyond:
        warnings.warn(
            f"model '{m.name}': no positions were found that close the loops within all limits; {'; '.join(beyond)}; give a guess "
            "within the limits, or change them",
            LimitWarning,
            stacklevel=3,
        )


def _search(loops: LoopGroup, start: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return what `LoopGroup.search` finds: within the limits of the joints, or else beyond them."""
    if loops.limited and not loops.closed(start[None], loops.residual(start)[0][None])[0]:
        inside = loops.search(start, free, bounded=True)
        if inside[-1]:
            return inside
    return loops.search(start, free)


def _opened(m: Mechanism, loops: LoopGroup, values: np.ndarray, stopped: str, fixed: list[str]) -> str:
    """Return what is said of loops that do not close, by the residual that is left."""
    found = LoopResiduals(loops.names, loops.residuals(values[None])[0])
    held = f" at t = {m.instant:g} s" if m.driven_names else ""
    held += f" with {', '.join(fixed)}" if fixed else ""
    residual, size = found.sizes.max(), loops.sizes[found.names.index(found.worst)]
    left = f"{residual * size:.3g} m or {residual:.3g} rad" if size else f"{residual:.3g} of its largest term"
    fewer, near = ("fix fewer coordinates, ", "") if fixed else ("", ", such as m.home")
    remedy = f"check lengths and places, {fewer}or give a guess that is nearer{near}"
    if m.folder is not None and residual <= NEARLY:
        remedy += f"; where this is the precision of the file, load it with tolerance={2.0 * residual:.1g}"
    best = f"the best of {STARTS + 1} starts leaves loop '{found.worst}' open by {left}"
    return f"model '{m.name}' does not close{held}: {stopped}{best}; {remedy}"


class Absorbed(NamedTuple):
    """Loops that close but for a little, and what is to be said of constraints that are independent but for a little.

    Of each loop its name, the joint frame on body b with which it closes, and the closure residual that it has without.
    """

    taken_up: list[tuple[str, Pose, float]]
    doubtful: list[str]


def absorbed(m: Mechanism, tolerance: float, starts: int) -> Absorbed:
    """Return the loops of a model that are open by no more than a tolerance where they are nearest to being closed.

    The tolerance is relative to the size of the loop for lengths, in radians for angles. Loops that close are not among them, nor are
    those that are open by more. The search begins at home, and at so many starts around it.
    """
    q, found, doubtful = m.search_start(), [], []
    for loops in loop_groups(m):
        own, values, closed = loops.search(q[loops.positions], loops.everything, bounded=loops.limited, starts=starts)
        q[loops.positions] = own
        if not (closed or loops.closed(own[None], values[None], tolerance)[0]):
            continue
        least = _least_independent(loops, own, tolerance)
        if len(least):
            doubtful.append(
                f"{len(least)} of the constraints of {', '.join(map(repr, loops.names))} are independent by no more than "
                f"{least.max():.1e}: with more digits in the file the mechanism may have as many more degrees of freedom"
            )
        if closed:
            continue
        own, coupled = loops.coupled(own)
        q[loops.positions] = own
        if coupled:  # else couplings contradict each other, which no frame takes up
            residuals = dict(zip(*loops.residuals_at(own), strict=True))
            closures = [(m.tree().closures[i], loop_sizes(m)[i]) for i in loops.group.closures]
            found += [(closure.name, _closing(m, q, closure, size), residuals[closure.name]) for closure, size in closures]
    return Absorbed([loop for loop in found if loop[-1] > CLOSED], doubtful)


def _least_independent(loops: LoopGroup, q: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the singular values of the constraints of loops that are below a tolerance but not zero, at a generic place near q."""
    _, s, Vt = np.linalg.svd(loops.residual(q)[1])
    along = Vt[np.count_nonzero(s > tolerance * s.max(initial=0.0)) :]
    step = _AWAY * along.T @ np.random.default_rng(0).normal(size=len(along))
    generic, _ = loops.settle(loops.integrate(q[None], step[None]), loops.everything)
    independent = np.linalg.svd(loops.residual(generic[0])[1], compute_uv=False)
    most = independent.max(initial=0.0)
    return independent[(independent > max(CLOSED, loops.rounding) * most) & (independent <= tolerance * most)]


def _closing(m: Mechanism, q: np.ndarray, closure: PlacedClosure, size: float) -> Pose:
    """Return the frame of a closing joint on body b that closes its loop at q, the nearest to the one it has."""
    loop = ClosureKinematics(m.tree(), q, closure)
    place, at = loop.branches[1][0], loop.at
    R, p, scale = np.asarray(at.R_b, dtype=float), np.asarray(at.p_b, dtype=float), np.repeat([1.0, size], 3)
    for _ in range(_NEWTON):
        # the rows on body b are those on its frame, here about the point of the frame
        found = closure_residual(closure.constraints, Ends(at.R_a, at.p_a - p, R, np.zeros(3), at.axes))
        values, _, rows = (np.asarray(x, dtype=float) for x in found)
        turn, shift = np.split(scale * np.linalg.lstsq(rows * scale, -values, rcond=SEARCH)[0], 2)
        R, p = rotation(quaternion_exp(turn)) @ R, p + shift
    _, own = m.tree().frames[next(loop.b for loop in m.loops if loop.name == closure.name)]
    return Pose.of(own.inverse() @ Rigid(np.asarray(place.R, dtype=float), np.asarray(place.p, dtype=float)).inverse() @ Rigid(R, p))


def _led(m: Mechanism, neutral: np.ndarray) -> np.ndarray:
    """Return positions that close the loops, led along with what is driven from t = 0 to the time of a model, by whole turns less.

    Where that does not lead there, it is as far as it came; where the loops do not close at t = 0, the neutral positions.
    """
    first, last = m.driven_motion(0.0), m.driven_motion(m.instant)
    joints = [joint for _, joint in m.driven_joints()]
    moves = [_shortest(joint, a.q.astype(float), b.q.astype(float)) for joint, a, b in zip(joints, first, last, strict=True)]
    sizes = np.where(np.array(m.driven_units) == "m/s", mechanism_size(m), 1.0)
    whole = max(np.abs(np.concatenate(moves) / sizes).max(), 1e-300)
    reached, longest, q = 0.0, _LONGEST / whole, neutral

    def moved(share: float) -> Mechanism:
        places = [joint.integrate(a.q.astype(float), share * move) for joint, a, move in zip(joints, first, moves, strict=True)]
        return with_driven_at(m, [Given(place, move, 0.0 * move) for place, move in zip(places, moves, strict=True)])

    with suppress(ModelError):  # they do not close at t = 0, or what is driven leads to where they open
        q = _assembled(m.at(0.0), None, {})
        for _ in range(_PACES):
            if reached == 1.0 or longest * whole < _SHORTEST:
                break
            share = min(longest, 1.0 - reached)
            step = share * project_velocity(moved(reached), q)
            ahead, good = m.integrate(q, step), True
            then = ahead.copy()
            for loops in loop_groups(moved(min(1.0, reached + share))):
                own, closed = _settled(loops, ahead[loops.positions], loops.everything, damping=0.0)
                then[loops.positions] = own
                good = good and closed and _aside(loops, ahead[loops.positions], own) <= _ASIDE * share * whole
            if good:
                q, reached, longest = then, 1.0 if share == 1.0 - reached else reached + share, min(_LONGEST / whole, 2.0 * longest)
            else:
                longest = 0.5 * share
    return q


def _shortest(joint: Joint, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
    """Return the rates that lead from q0 to q1 in a unit of time, without whole turns."""
    rates = joint.difference(q0, q1)
    if joint.nq != joint.nv or isinstance(joint, Helical):
        return rates
    return rates - np.where(np.array(joint.v_units) == "rad/s", 2.0 * np.pi * np.round(rates / (2.0 * np.pi)), 0.0)


def moved_along(m: Mechanism, q: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return a configuration that closes the loops, reached from one that does by a step along what the loops allow."""
    q = q.copy()
    for alike in alike_groups(m):
        loops = alike.loops
        (here, steps), which = alike.different(q[alike.positions], step[alike.columns])
        _, s, Vt = np.linalg.svd(loops.residual_at(here)[1])
        rank = np.count_nonzero(s > RANK * s.max(axis=1, initial=1.0)[:, None], axis=1)
        then, values = loops.settle(loops.integrate(here, null_part(Vt, rank[:, None], steps / loops.coordinates)), loops.everything)
        for i in np.flatnonzero(~loops.closed(then, values)):
            then[i], *_ = loops.search(then[i], loops.everything)
        q[alike.positions] = then[which]
    return q


def followed(m: Mechanism, q: np.ndarray, held: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return configurations (N, nq) that were moved so that the loops close, and which of them do close.

    All velocity coordinates move but those that are held.
    """
    q, closed = q.copy(), np.ones(len(q), dtype=bool)
    for loops in loop_groups(m):
        free = np.array([m.v_names[column] not in held for column in loops.columns])
        q[:, loops.positions], values = loops.settle(q[:, loops.positions], free)
        closed &= loops.closed(q[:, loops.positions], values)
    return q, closed


def moved_to(m: Mechanism, q: np.ndarray, at_v: slice, value: Callable[[np.ndarray], float], goal: float) -> np.ndarray | None:
    """Return the nearest configuration to q that closes the loops, and at which a function of a joint's position has a value.

    Newton's steps are the shortest along which the loops stay closed. There is none where they do not converge.
    """
    loops = next(loops for loops in loop_groups(m) if set(range(at_v.start, at_v.stop)) & set(loops.columns))
    moving, tiny = [c for c, j in enumerate(loops.columns) if at_v.start <= j < at_v.stop], 1e-6
    whole, q = q, q[loops.positions]

    def at(own: np.ndarray) -> np.ndarray:
        moved = whole.copy()
        moved[loops.positions] = own
        return moved

    for _ in range(_NEWTON):
        now = value(at(q))
        if abs(goal - now) < 1e-10:
            return at(q)
        J = loops.residual(q)[1]
        slope = np.zeros(len(loops.columns))
        for c in moving:
            step = np.zeros((1, len(slope)))
            step[0, c] = tiny
            there, back = (value(at(loops.integrate(q[None], way * step)[0])) for way in (1.0, -1.0))
            slope[c] = (there - back) / (2.0 * tiny)
        rows, wanted = np.vstack([J, slope]), np.append(np.zeros(len(J)), goal - now)
        step = np.linalg.lstsq(rows, wanted, rcond=SEARCH)[0]
        if not np.abs(rows @ step - wanted).max() <= 1e-3 * abs(goal - now):
            return None
        q, closed = _settled(loops, loops.integrate(q[None], step[None])[0], loops.everything)
        if not closed:
            return None
    return None


def _settled(loops: LoopGroup, q: np.ndarray, free: np.ndarray, damping: float = 1e-3) -> tuple[np.ndarray, bool]:
    """Return where positions (nq,) of a group settle, and whether the loops are closed there."""
    then, values = loops.settle(q[None], free, damping)
    return then[0], bool(loops.closed(then, values)[0])


def _aside(loops: LoopGroup, ahead: np.ndarray, then: np.ndarray) -> float:
    """Return the distance between two configurations, without units."""
    return float(np.abs(loops.difference(ahead[None], then[None])).max())


def _walk(loops: LoopGroup, q: np.ndarray, goal: np.ndarray, places: list[tuple[int, int]], free: np.ndarray) -> np.ndarray:
    """Return how far a mechanism comes when coordinates are led straight to a goal from q, which closes the loops.

    A step goes along the tangent and is brought back onto the loops; it is halved where that takes more than a small part of it.
    """
    longest = _LONGEST
    positions, velocities = map(list, zip(*places, strict=True))
    for _ in range(_PACES):
        step = np.zeros(len(free))
        step[velocities] = goal[positions] - q[positions]
        if not step.any() or longest < _SHORTEST:
            break
        step /= loops.coordinates
        J = loops.residual(q)[1]
        step[free] = np.linalg.lstsq(J[:, free], -J @ step, rcond=SEARCH)[0]
        whole = np.abs(step).max()
        share = min(1.0, longest / whole)
        ahead = loops.integrate(q[None], share * step[None])[0]
        if share == 1.0:
            ahead[positions] = goal[positions]
        then, closed = _settled(loops, ahead, free, damping=0.0)
        if closed and _aside(loops, ahead, then) <= _ASIDE * share * whole:
            q, longest = then, min(_LONGEST, 2.0 * longest)
        else:
            longest = 0.5 * share * whole
    return q


#: So many states and more are projected with compiled matrices.
_MANY = 8


def project_velocity(m: Mechanism, q: Any, v: Any = None, fixed: Mapping[str, Any] | None = None, t: float | None = None) -> np.ndarray:
    """Return velocities (..., nv) that keep all loops closed at positions (..., nq), nearest to v, or rest, by kinetic energy; coordinates
    that are fixed have their rates, one for all or (...).
    """
    m, held = m.timed(t), fixed or {}
    q = _rows("project_velocity: q", q, m.nq)
    v = np.zeros(m.nv) if v is None else _rows("project_velocity: v", v, m.nv)
    rates = {name: floats(f"project_velocity: {name}", value, "give a number", ModelError) for name, value in held.items()}
    for name, rate in rates.items():
        if name not in m.v_names:
            raise ModelError(f"model '{m.name}' has no velocity '{name}'; choose from {', '.join(m.v_names)}")
        if not np.isfinite(rate).all():
            raise ModelError(f"project_velocity: {name} {rate[()]} is not finite; give a finite number")
    shapes = {"q": q.shape[:-1], "v": v.shape[:-1], **{name: rate.shape for name, rate in rates.items()}}
    batch = leading_axes("project_velocity: ", shapes, ModelError)
    q, v = (np.array(np.broadcast_to(x, (*batch, x.shape[-1]))).reshape(-1, x.shape[-1]) for x in (q, v))
    at = [m.v_names.index(name) for name in rates]
    for column, rate in zip(at, rates.values(), strict=True):
        v[:, column] = np.broadcast_to(rate, batch).ravel()
    if m.has_loops:
        _check_closing(m, q, batch)
        free = ~np.isin(np.arange(m.nv), at)
        for i, matrices in enumerate(_matrices(m, q)):
            v[i] = _projected(m, v[i], free, *matrices)
    return v.reshape(*batch, m.nv)


def _rows(name: str, value: Any, size: int) -> np.ndarray:
    """Return finite numbers (..., size)."""
    found = floats(name, value, f"give (..., {size})", ModelError)
    return array(name, found, (*found.shape[:-1], size))


def _check_closing(m: Mechanism, q: np.ndarray, batch: tuple[int, ...]) -> None:
    """Refuse positions (N, nq) of which one leaves a loop open."""
    if len(q) < _MANY:
        open_ = [not loop_residuals(m, one).sizes.max(initial=0.0) <= LOOSE for one in q]
    else:
        found = [loops.residuals(loops.residual(q[:, loops.positions])[0]) for loops in loop_groups(m)]
        open_ = ~(np.concatenate(found, axis=1).max(axis=1, initial=0.0) <= LOOSE)
    for i in np.flatnonzero(open_):
        where = [int(k) for k in np.unravel_index(i, batch)] or ""
        raise ModelError(left_open(m, f"project_velocity: q{where}", q[i]))


def _matrices(m: Mechanism, q: np.ndarray) -> Iterable[tuple[np.ndarray, ...]]:
    """Return the Jacobian of the constraints, their rates by driven joints, and the mass matrix, at each of the positions (N, nq)."""

    def traced(tree: Tree, q: Any) -> tuple[Any, Any, Any]:
        J = constraint_jacobian(tree, q)[1]
        return J, constraint_motion(tree, q, np.zeros(m.nv))[0] if m.driven_names else np.zeros(len(J)), mass_matrix(tree, q)

    def make() -> Kernel:
        trace = Trace("velocity projection")
        tree = m.tree().marked(trace.mark, trace.solve)
        return compile_graph(trace.graph(**dict(zip(("J", "rate", "mass"), traced(tree, trace.input("q", (m.nq,))), strict=True))))

    if len(q) < _MANY or m.driven_names:  # every time is a model of its own, for which no code is made
        return (tuple(np.asarray(x, dtype=float) for x in traced(m.tree(), one)) for one in q)
    return zip(*m.once("velocity projection", (), make)(q), strict=True)


def _projected(m: Mechanism, v: np.ndarray, free: np.ndarray, J: np.ndarray, phi_t: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return the velocity of which coordinates are free that keeps the loops closed and is nearest to v, by the matrices there."""
    # without units; the rank is a matter of geometry, and the masses choose among the velocities that are left
    rows, columns = np.array(loop_units(m)), coordinate_units(m)
    J, phi_t = J * columns / rows[:, None], phi_t / rows
    x, own = v / columns, columns[free]
    U, s, Vt = np.linalg.svd(J[:, free])
    rank = int(np.count_nonzero(s > RANK * s.max(initial=1.0)))
    least = Vt[:rank].T @ ((U.T[:rank] @ (-J[:, ~free] @ x[~free] - phi_t)) / s[:rank])
    mass = mass[np.ix_(free, free)] * np.outer(own, own)
    along = Vt[rank:].T
    result = x.copy()
    # the nearest by geometry, and from there by kinetic energy; but for motions without mass, such as a thin rod that spins about its axis
    result[free] = least + along @ (along.T @ (x[free] - least))
    pull = along.T @ (mass @ (x[free] - result[free]))
    result[free] += along @ np.linalg.lstsq(along.T @ mass @ along, pull, rcond=MASSLESS)[0]
    size = np.linalg.norm(J) * (np.linalg.norm(x) + np.linalg.norm(result)) + np.linalg.norm(phi_t)
    if np.linalg.norm(J @ result + phi_t) > RANK * size:  # without fixed rates and driven joints, rest is a velocity that does
        rates = [f"{m.v_names[k]} = {v[k]:g}" for k in np.flatnonzero(~free)] + [f"{name} driven" for name in m.driven_names]
        raise ModelError(
            f"model '{m.name}': no velocity keeps the loops closed with {', '.join(rates)}; fix fewer rates, or drive fewer joints"
        )
    return columns * result


def _plain(m: Mechanism, name: str) -> tuple[int, int]:
    """Return the position and velocity index of a coordinate that is a plain number."""
    if name not in m.q_names:
        raise ModelError(f"model '{m.name}' has no coordinate '{name}'; choose from {', '.join(m.q_names)}")
    joint, position, velocity = m.coordinate_places[name]
    if joint.nq != joint.nv:
        raise ModelError(f"coordinate '{name}' is part of a quaternion and cannot be fixed alone; give a guess instead")
    return position, velocity
