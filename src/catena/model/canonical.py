"""Canonical frames: every axis is z, every offset in Denavit-Hartenberg form.

The user's frame U of a body is replaced by a frame C = U B with a constant B, such that the body's own joint is about and along z and the
way to the first child is one screw about and along x. A placement is then two screws, one constant and one of the joint: a third of the
operations of a dense rotation. Results are handed back in the user's frames.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catena.model.motions import DenseMotion, ScrewMotion, Undriven, clean, clean_turn
from catena.model.pose import from_rpy
from catena.spatial import Array, Placement, Rigid, Screw


def screws(pose: Rigid, scale: float) -> tuple[tuple[float, float], list[Screw], float, float]:
    """Return a pose as a screw about z (angle, shift), constant screws, and a last screw about z (angle, shift).

    The constant screws are one about x along the common normal of the two z axes; where these are so nearly parallel that the normal is
    far away, measured by the pose's own offset, the offset and the tilt are separate screws. `scale` [m] is the size of the numbers that
    the pose was computed from: it says what is rounding.
    """
    R, p = pose.R, pose.p
    sine = float(np.hypot(R[0, 2], R[1, 2]))
    if sine > 1e-14:
        if R[1, 2] > 0.0:  # of the two directions of the normal, the one that turns x least
            sine = -sine
        nx, ny = -R[1, 2] / sine, R[0, 2] / sine
        along, across = p[0] * nx + p[1] * ny, p[1] * nx - p[0] * ny
        shift2 = -across / sine
        if abs(shift2) <= 10.0 * np.linalg.norm(p):
            shift1 = p[2] - shift2 * R[2, 2]
            return (float(np.arctan2(ny, nx)), shift1), [_screw_x(R[2, 2], sine, along, scale)], *_rest(R, nx, ny, R[2, 2], sine), shift2
    # parallel axes, or nearly so: offset first, then the tilt, if any, about its own direction
    offset = float(np.hypot(p[0], p[1]))
    mx, my = (p[0] / offset, p[1] / offset) if offset > 1e-14 * scale else (1.0, 0.0)
    first = (float(np.arctan2(my, mx)), float(p[2]))
    if abs(sine) <= 1e-14:
        cosine = 1.0 if R[2, 2] > 0.0 else -1.0
        return first, [_screw_x(cosine, 0.0, offset, scale)], *_rest(R, mx, my, cosine, 0.0), 0.0
    nx, ny = -R[1, 2] / sine, R[0, 2] / sine
    turn = Screw(2, nx * mx + ny * my, ny * mx - nx * my)
    factors = [_screw_x(1.0, 0.0, offset, scale), turn, _screw_x(R[2, 2], sine, 0.0, scale)]
    return first, factors, *_rest(R, nx, ny, R[2, 2], sine), 0.0


def _screw_x(cosine: float, sine: float, shift: float, scale: float) -> Screw:
    return Screw(0, *clean_turn(float(cosine), float(sine)), clean(float(shift), scale))


def _rest(R: np.ndarray, nx: float, ny: float, cosine: float, sine: float) -> tuple[float]:
    """Return the angle about z that remains of R after turning x to (nx, ny, 0) and tilting about it."""
    x = np.array([nx, ny, 0.0])
    y = np.array([-ny * cosine, nx * cosine, sine])
    return (float(np.arctan2(R[:, 0] @ y, R[:, 0] @ x)),)


def outer_frame(motion: Undriven, towards: Rigid | None, com: np.ndarray | None) -> tuple[Undriven, Rigid]:
    """Return the motion that ends at a body's canonical frame, and that frame in the user's frame of the body.

    `towards` is the inner frame of the body's first child, in the user's frame; without one, the centre of mass is put on the x axis.
    """
    outer = Rigid(motion.outer, np.zeros(3))
    if isinstance(motion, DenseMotion) or (towards is None and com is None):
        return motion, outer
    if towards is not None:
        (angle, shift), *_ = screws(outer.inverse() @ towards, float(np.abs(towards.p).max()))
    else:
        x, y, shift = outer.R.T @ com
        angle = float(np.arctan2(y, x))
    along = Screw(2, *clean_turn(float(np.cos(angle)), float(np.sin(angle))), float(shift))
    return motion.slide_outer(angle, shift), outer @ along.rigid()


def connect(pose: Rigid, motion: Undriven, scale: float) -> tuple[Placement, Undriven]:
    """Return the constant factors between a parent's canonical frame and a joint, and the motion that follows them."""
    if isinstance(motion, DenseMotion):
        return Placement(()), replace(motion, before=pose)
    (angle1, shift1), middle, angle2, shift2 = screws(pose, scale)
    factors = [_screw_z(angle1, shift1, scale), *middle]
    moved = motion.slide_inner(angle2, shift2)
    if moved is None:
        factors.append(_screw_z(angle2, shift2, scale))
        moved = motion
    assert isinstance(moved, ScrewMotion)
    turns = [float(f.turn0 - 2.0 * np.pi * np.round(f.turn0 / (2.0 * np.pi))) for f in moved.factors]  # within half a turn
    tidy = tuple(f._replace(turn0=clean(turn), slide0=clean(float(f.slide0), scale)) for f, turn in zip(moved.factors, turns, strict=True))
    constant = Placement(f for f in factors if not (f.s == 0.0 and f.c == 1.0 and f.d == 0.0))
    return constant, ScrewMotion(tidy, moved.inner, moved.outer)


def connect_varied(pose: Rigid, motion: Undriven) -> tuple[Placement, Undriven]:
    """Return the same where the translation is varied: factors do not depend on numbers that may change."""
    if isinstance(motion, DenseMotion):
        return Placement(()), replace(motion, before=pose)
    turned, motion = connect(Rigid(pose.R, np.zeros(3)), motion, 1.0)
    return Placement([Rigid(np.eye(3), pose.p), *turned.factors]), motion


def connect_turned(first: Rigid, shift: Array, rpy: Array, last: np.ndarray, motion: Undriven) -> tuple[Placement, Undriven]:
    """Return the same where the rotation is varied too: a pose, a translation, roll, pitch and yaw, and a constant rotation in turn.

    Where constant rotations only exchange axes, that before the angles goes behind them, where it may be undone, and these are screws.
    """
    if isinstance(motion, DenseMotion):
        return Placement(()), replace(motion, before=first @ Rigid(from_rpy(rpy), shift) @ Rigid(last, np.zeros(3)))
    if not (_exchanges(first.R) and _exchanges(last)):
        return Placement([first @ Rigid(from_rpy(rpy), shift) @ Rigid(last, np.zeros(3))]), motion
    turns = []
    for axis, angle in ((2, rpy[2]), (1, rpy[1]), (0, rpy[0])):
        k = int(np.argmax(np.abs(first.R[:, axis])))
        turns.append(Screw(k, np.cos(angle), np.sin(angle) * float(first.R[k, axis])))
    constant, motion = connect(Rigid(first.R @ last, np.zeros(3)), motion, 1.0)
    return Placement([Rigid(np.eye(3), first.p + first.R @ shift), *turns, *constant.factors]), motion


def _exchanges(R: np.ndarray) -> bool:
    """Return whether a rotation is constant and only exchanges axes."""
    return R.dtype != object and bool(np.isin(R, (-1.0, 0.0, 1.0)).all())


def _screw_z(angle: float, shift: float, scale: float) -> Screw:
    return Screw(2, *clean_turn(float(np.cos(angle)), float(np.sin(angle))), clean(float(shift), scale))
