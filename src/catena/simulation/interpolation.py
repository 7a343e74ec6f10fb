"""States between samples: Hermite interpolation on the manifold of each joint.

Between two samples, the coordinates of a joint are polynomials of time in a chart around the earlier one. They meet positions, velocities
and, where known, accelerations at both ends: degree 5 and errors of order h^6 in positions, h^5 in velocities, h^4 in accelerations;
without accelerations degree 3 and order h^4 and h^3. Where a sample follows a jump, the stretch before it ends in the state before the
jump, with an acceleration that is not known: degree 4.

Most joints are their own chart. A rotation is R(t) = R0 exp(u(t)~), with the rotation vector u in the child's axes, so that quaternions
stay at length 1. With x = |u|^2 and the angular velocity w in the child's axes,

    w  = u' - b u x u' + d u x (u x u')         b = (1 - cos|u|) / x       d = (|u| - sin|u|) / |u|^3
    u' = w + 1/2 u x w + c u x (u x w)          c = (1 - |u|/2 cot(|u|/2)) / x

and the second derivatives follow by the product rule. The translation of a free body is interpolated in its parent's axes, where free
flight is a parabola.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial

from catena.errors import ArgumentError
from catena.model import Free, Spherical
from catena.model.manifolds import difference_rotation, integrate_rotation, turned
from catena.spatial import quaternion_inverse

if TYPE_CHECKING:
    from catena.simulation.trajectory import Trajectory


def _zeta(s: int) -> float:
    """Return the sum of n^-s over all n >= 1, for even s."""
    known = {2: np.pi**2 / 6.0, 4: np.pi**4 / 90.0}
    return float(known[s]) if s in known else float(np.sum(np.arange(2000.0, 0.0, -1.0) ** -s))


# b, c and d as power series in x = |u|^2, to rounding for turns up to pi; unlike the quotients they are exact near 0 as well
_B = Polynomial([(-1.0) ** k / factorial(2 * k + 2) for k in range(16)])
_C = Polynomial([2.0 * _zeta(2 * k) / (2.0 * np.pi) ** (2 * k) for k in range(1, 32)])
_D = Polynomial([(-1.0) ** k / factorial(2 * k + 3) for k in range(16)])

#: Velocities that differ by no more than this part of their change agree.
_AGREEMENT = 0.05

Curve = tuple[Any, Any, Any]  # positions, velocities and accelerations over time; no accelerations are None
Jumps = Mapping[int, tuple[np.ndarray, np.ndarray]]  # q and v before a jump by the sample after it


def interpolate(run: Trajectory, times: np.ndarray, jumps: Jumps) -> Curve:
    """Return q, v and vdot of a run at other times, at samples these."""
    t, q, v, vdot = run.t, run.q, run.v, run.vdot
    if len(t) == 1:
        same = np.zeros(len(times), int)
        return q[same], v[same], None if vdot is None else vdot[same]
    k = np.clip(np.searchsorted(t, times, side="right") - 1, 0, len(t) - 2)
    h = (t[k + 1] - t[k])[:, None]
    s = (times - t[k])[:, None] / h
    q1, v1, vdot1 = _ends(run, jumps, k)
    _check_turns(run, jumps, k[(s[:, 0] > 0.0) & (s[:, 0] < 1.0)])
    result_q, result_v = np.empty((len(times), q.shape[1])), np.empty((len(times), v.shape[1]))
    result_vdot = None if vdot is None else np.empty_like(result_v)

    for link, at_q, at_v in run.model.slices():
        start: Curve = (q[k, at_q], v[k, at_v], None if vdot is None else vdot[k, at_v])
        end: Curve = (q1[:, at_q], v1[:, at_v], None if vdot1 is None else vdot1[:, at_v])
        if isinstance(link.joint, Spherical):
            between = _rotation(s, h, start, end)
        elif isinstance(link.joint, Free):
            between = _pose(s, h, start, end)
        else:
            between = _hermite(s, h, start, end)
        result_q[:, at_q], result_v[:, at_v] = between[:2]
        if result_vdot is not None:
            result_vdot[:, at_v] = between[2]

    for ends in (k, k + 1):
        exact = times == t[ends]
        result_q[exact], result_v[exact] = q[ends[exact]], v[ends[exact]]
        if result_vdot is not None and vdot is not None:
            result_vdot[exact] = vdot[ends[exact]]
    return result_q, result_v, result_vdot


def _ends(run: Trajectory, jumps: Jumps, k: np.ndarray) -> Curve:
    """Return q, v and vdot at the ends of the stretches after samples k: before a jump, if there is one, where vdot is not known."""
    q, v, vdot = run.q[k + 1], run.v[k + 1], None if run.vdot is None else run.vdot[k + 1]
    for sample, (q_before, v_before) in jumps.items():
        q[k + 1 == sample], v[k + 1 == sample] = q_before, v_before
        if vdot is not None:
            vdot[k + 1 == sample] = np.nan
    return q, v, vdot


def turns(run: Trajectory, jumps: Jumps, k: np.ndarray) -> dict[str, np.ndarray]:
    """Return about how far bodies on ball and free joints turn from samples k to the next [rad], by their names.

    From half a turn on they may have gone round, which their quaternions do not tell: the rotation in between is not known.
    """
    h, start, end = run.t[k + 1] - run.t[k], run.v[k], _ends(run, jumps, k)[1]
    joints = [(link.name, at_v.start) for link, _, at_v in run.model.slices() if isinstance(link.joint, (Spherical, Free))]
    return {name: 0.5 * h * sum(np.linalg.norm(v[:, i : i + 3], axis=1) for v in (start, end)) for name, i in joints}


def agree(run: Trajectory, jumps: Jumps, k: np.ndarray) -> np.ndarray:
    """Return whether the motion from samples k to the next is known from them: positions lead where velocities say.

    They do not where a body may have gone round, where samples are further apart than the motion is slow, and after large steps of low
    order. In the middle of a stretch, velocities from all that is known are compared with those from velocities and accelerations alone.
    """
    known = np.ones(len(k), dtype=bool)
    for turn in turns(run, jumps, k).values():
        known &= turn < np.pi
    some = k[known]
    h, v0, v1 = (run.t[some + 1] - run.t[some])[:, None], run.v[some], _ends(run, jumps, some)[1]
    mean, scale = 0.5 * (v0 + v1), np.abs(v0) + np.abs(v1)
    if run.vdot is not None:
        a0, a1 = run.vdot[some], _ends(run, jumps, some)[2]
        gain = h * (np.abs(a0) + np.abs(a1))
        mean, scale = np.where(np.isnan(a1), mean, mean + 0.125 * h * (a0 - a1)), np.where(np.isnan(a1), scale, np.abs(v1 - v0) + gain)
    middle = interpolate(run, run.t[some] + 0.5 * h[:, 0], jumps)[1]
    least = 1e-6 * np.abs(run.v[np.isfinite(run.v)]).max(initial=0.0)
    known[known] = (np.abs(middle - mean) <= _AGREEMENT * scale + least).all(axis=1)
    return known


def _check_turns(run: Trajectory, jumps: Jumps, k: np.ndarray) -> None:
    """Refuse samples so far apart that a rotation between them may have gone round."""
    for name, turn in turns(run, jumps, k).items():
        worst = int(np.argmax(turn)) if len(turn) else 0
        if len(turn) and turn[worst] > np.pi:
            a, b = run.t[k[worst]], run.t[k[worst] + 1]
            raise ArgumentError(
                f"'{name}' turns by about {turn[worst]:.3g} rad between the samples at t = {a:.6g} and {b:.6g}, too far to interpolate a "
                "rotation; record more samples, less than half a turn apart"
            )


def _hermite(s: Any, h: Any, start: Curve, end: Curve, change: Any = None) -> Curve:
    """Return the polynomial of the part s of a step h that meets both ends, with its derivatives in time.

    `change` is the difference of the positions, where it is not simply that of the coordinates; positions are then counted from the start.
    An acceleration at the end that is not a number is not known.
    """
    x0 = start[0] if change is None else 0.0
    if change is None:
        change = end[0] - start[0]
    v0, v1 = h * start[1], h * end[1]
    if start[2] is None:
        c = [v0, 3.0 * change - 2.0 * v0 - v1, -2.0 * change + v0 + v1]
    else:
        a0, a1 = 0.5 * h**2 * start[2], 0.5 * h**2 * end[2]
        a1 = np.where(np.isnan(a1), a0 + 3.0 * v0 + 3.0 * v1 - 6.0 * change, a1)  # what makes the last coefficient 0
        c = [
            v0,
            a0,
            10.0 * change - 6.0 * v0 - 4.0 * v1 - 3.0 * a0 + a1,
            -15.0 * change + 8.0 * v0 + 7.0 * v1 + 3.0 * a0 - 2.0 * a1,
            6.0 * change - 3.0 * v0 - 3.0 * v1 - a0 + a1,
        ]
    x = v = a = 0.0
    for power, coefficient in reversed(list(enumerate(c, start=1))):
        x = (x + coefficient) * s
        v = v * s + power * coefficient
        if power > 1:
            a = a * s + power * (power - 1) * coefficient
    return x0 + x, v / h, a / h**2


def _rotation(s: Any, h: Any, start: Curve, end: Curve) -> Curve:
    """Return quaternions, angular velocities and accelerations between two."""
    u1 = difference_rotation(start[0], end[0])
    u1_rates = _chart_rates(u1, end[1], end[2])
    # where the chart begins, u = 0, its rates are the velocity and acceleration themselves
    u, u_t, u_tt = _hermite(s, h, start, (u1, *u1_rates), change=u1)
    q = integrate_rotation(start[0], u)
    x, x_t = _dot(u, u), 2.0 * _dot(u, u_t)
    b, d = _B(x), _D(x)
    uu, uuu = np.cross(u, u_t), np.cross(u, np.cross(u, u_t))
    w = u_t - b * uu + d * uuu
    if start[2] is None:
        return q, w, None
    b_t, d_t = _B.deriv()(x) * x_t, _D.deriv()(x) * x_t
    turning = np.cross(u, u_tt)
    w_t = u_tt - b_t * uu - b * turning + d_t * uuu + d * (np.cross(u_t, uu) + np.cross(u, turning))
    return q, w, w_t


def _chart_rates(u: Any, w: Any, w_t: Any) -> tuple[Any, Any]:
    """Return the first and second derivative of the rotation vector u at the angular velocity w and acceleration w_t."""
    x, c = _dot(u, u), _C(_dot(u, u))
    uw = np.cross(u, w)
    u_t = w + 0.5 * uw + c * np.cross(u, uw)
    if w_t is None:
        return u_t, None
    c_t = _C.deriv()(x) * 2.0 * _dot(u, u_t)
    uw_t = np.cross(u_t, w) + np.cross(u, w_t)
    return u_t, w_t + 0.5 * uw_t + c_t * np.cross(u, uw) + c * (np.cross(u_t, uw) + np.cross(u, uw_t))


def _pose(s: Any, h: Any, start: Curve, end: Curve) -> Curve:
    """Return poses, body twists and their rates between two."""
    turns, shifts = [], []
    for q, v, vdot in (start, end):
        w, speed = v[:, :3], v[:, 3:]
        turns.append((q[:, 3:], w, None if vdot is None else vdot[:, :3]))
        gain = None if vdot is None else turned(q[:, 3:], vdot[:, 3:] + np.cross(w, speed))
        shifts.append((q[:, :3], turned(q[:, 3:], speed), gain))
    quaternion, w, w_t = _rotation(s, h, *turns)
    p, p_t, p_tt = _hermite(s, h, *shifts)
    back = quaternion_inverse(quaternion)
    speed = turned(back, p_t)
    q, v = np.concatenate([p, quaternion], axis=1), np.concatenate([w, speed], axis=1)
    return q, v, None if w_t is None else np.concatenate([w_t, turned(back, p_tt) - np.cross(w, speed)], axis=1)


def _dot(a: Any, b: Any) -> Any:
    return np.sum(a * b, axis=-1, keepdims=True)
