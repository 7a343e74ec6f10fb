"""Paths of coordinates that lead a frame through way points."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.control.paths import Path, polynomial
from catena.errors import ArgumentError, ConvergenceWarning, ModelError
from catena.graph import where
from catena.kernels.kinematics import poses
from catena.kernels.named_coordinates import coordinates, places
from catena.kernels.tracing import frozen
from catena.kinematic_targets import Target, inverse_kinematics
from catena.model import Mechanism
from catena.model.values import floats
from catena.simulation.arguments import positive
from catena.spatial import Rigid

#: Intervals of a path at first, and at most.
_FEWEST, _MOST = 16, 512


class CartesianPath(Path):
    """A path of coordinates, named `names`, along which a frame goes through way points; `times` and `q` are those of its knots.

    `deviation` is how far the frame is from its way between knots at most [m, rad].
    """

    def __init__(self, names: tuple[str, ...], at: list[int], times: np.ndarray, q: np.ndarray, deviation: float) -> None:
        self.names, self.times, self.q, self.deviation = names, times, q, deviation
        spline = Spline(times, q[:, at], rest=True)
        super().__init__(q[0, at], q[-1, at], float(times[-1]), spline)


def cartesian_path(
    m: Mechanism,
    frame: str,
    waypoints: Any,
    duration: float,
    *,
    names: Sequence[str] | None = None,
    guess: Any = None,
    tolerance: float = 1e-5,
) -> CartesianPath:
    """Return the path of coordinates along which a body or frame goes through way points within a duration [s], from rest to rest.

    `waypoints` are poses, (points, 4, 4) or several `ct.Pose`, or positions (points, 3) with any rotation. Between two the way is straight;
    through more it is a smooth curve. `names` are the coordinates that the path gives: all, if not given; of a mechanism with loops those
    of its motors. Positions follow from `ct.inverse_kinematics` at as many knots as it takes to stay within a `tolerance` [m, rad] of the
    way; the first is near `guess`, and each further one near the one before.

    >>> m = examples.arm()
    >>> path = ct.cartesian_path(m, "hand", [(0.5, 0.0, 0.5), (0.5, 0.3, 0.5)], duration=2.0)
    >>> ct.poses(m, of="hand")(path(1.0).position)[:3, 3].round(4)
    array([0.5 , 0.15, 0.5 ])
    """
    m = frozen(m, "cartesian_path")
    m.carrier(frame, "cartesian_path names body")
    duration = positive("cartesian_path: duration", duration, "give a time above 0 [s]")
    tolerance = positive("cartesian_path: tolerance", tolerance, "give a number above 0 [m, rad]")
    if m.driven_names:
        raise ModelError(f"cartesian_path: joints of model '{m.name}' are driven; give a model without ct.Driven")
    way = _Way(waypoints, duration)
    chosen = m.v_names if names is None else tuple(names)
    at = list(places(m, list(coordinates(m, chosen, "cartesian_path: names")), "cartesian_path: names"))
    count, q = _FEWEST, None
    while True:
        times = np.linspace(0.0, duration, count + 1)
        q = _followed(m, frame, way, times, guess if q is None else q[0])
        deviation = _deviation(m, frame, way, times, q)
        if deviation <= tolerance or count >= _MOST:
            break
        count *= 2
    if deviation > tolerance:
        warnings.warn(
            f"cartesian_path: '{frame}' is {deviation:.2g} m or rad from its way at {count} knots; the way passes near a singular "
            "position, or bends sharply: give other way points, another guess, or a larger tolerance",
            ConvergenceWarning,
            stacklevel=2,
        )
    return CartesianPath(chosen, at, times, q, deviation)


def _followed(m: Mechanism, frame: str, way: _Way, times: np.ndarray, guess: Any) -> np.ndarray:
    """Return positions along a way, each near the one before."""
    found: list[np.ndarray] = []
    for t in times:
        near = guess if not found else found[-1] if len(found) < 2 else m.integrate(found[-1], m.difference(found[-2], found[-1]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            here = inverse_kinematics(m, way.target(frame, t), near, starts=0 if found else 40)
        if not here.solved:
            raise ModelError(f"cartesian_path: '{frame}' cannot follow its way at t = {t:.4g} s; {'; '.join(here.explain().splitlines())}")
        found.append(here.q)
    return np.array(found)


def _deviation(m: Mechanism, frame: str, way: _Way, times: np.ndarray, q: np.ndarray) -> float:
    """Return how far the frame is from its way half-way between knots at most, where positions are interpolated."""
    middle = 0.5 * (times[1:] + times[:-1])
    steps = np.array([m.difference(q[0], x) for x in q])  # along which rotations are interpolated as well
    between = m.integrate(q[0], np.array([Spline(times, steps, rest=True)(t)[0] for t in middle]))
    T = poses(m, of=frame)(between)
    wanted = [way.at(t) for t in middle]
    far = max(float(np.abs(x[:3, 3] - p).max()) for x, (p, _) in zip(T, wanted, strict=True))
    if way.rotations is None:
        return far
    return max(far, max(float(np.abs(x[:3, :3] - R).max()) for x, (_, R) in zip(T, wanted, strict=True)))


class _Way:
    """The way of a frame: splines of positions and of quaternions through way points, over time from rest to rest."""

    def __init__(self, waypoints: Any, duration: float) -> None:
        if isinstance(waypoints, Sequence) and any(isinstance(point, Rigid) for point in waypoints):
            waypoints = [point.matrix() if isinstance(point, Rigid) else point for point in waypoints]
        given = floats("cartesian_path: waypoints", waypoints, "give ct.Pose's, 4 x 4 matrices, or positions")
        posed = given.ndim == 3 and given.shape[1:] == (4, 4)
        if not (posed or (given.ndim == 2 and given.shape[1] == 3)) or len(given) < 2 or not np.isfinite(given).all():
            raise ArgumentError(f"cartesian_path: waypoints have shape {given.shape}; give two or more poses (points, 4, 4) or positions")
        points = given[:, :3, 3] if posed else given
        quaternions = _quaternions(given[:, :3, :3]) if posed else np.zeros((len(given), 4))
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1) + np.linalg.norm(np.diff(quaternions, axis=0), axis=1)
        if not lengths.all():
            raise ArgumentError(f"cartesian_path: way points {int(np.argmin(lengths))} and the next are the same; leave one out")
        along = np.concatenate([[0.0], np.cumsum(lengths)]) / lengths.sum()
        self._points, self._time = Spline(along, points), polynomial(0.0, 1.0, duration, order=7)
        self.rotations = Spline(along, quaternions) if posed else None

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray | None]:
        """Return position and rotation at a time."""
        s = float(self._time(t).position)
        if self.rotations is None:
            return self._points(s)[0], None
        w, x, y, z = (quaternion := self.rotations(s)[0]) / np.linalg.norm(quaternion)
        v, skew = np.array([x, y, z]), np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        return self._points(s)[0], (w * w - v @ v) * np.eye(3) + 2.0 * np.outer(v, v) + 2.0 * w * skew

    def target(self, frame: str, t: float) -> Target:
        """Return the target at a time."""
        p, R = self.at(t)
        if R is None:
            return Target(frame, position=p)
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = R, p
        return Target(frame, pose=T)


def _quaternions(R: np.ndarray) -> np.ndarray:
    """Return the quaternions of rotations, each on the side of the one before."""
    found: list[np.ndarray] = []
    for x in R:
        # the eigenvector of Bar-Itzhack's matrix, right for all rotations
        K = np.array([
            [x[0, 0] - x[1, 1] - x[2, 2], x[1, 0] + x[0, 1], x[2, 0] + x[0, 2], x[2, 1] - x[1, 2]],
            [x[1, 0] + x[0, 1], x[1, 1] - x[0, 0] - x[2, 2], x[2, 1] + x[1, 2], x[0, 2] - x[2, 0]],
            [x[2, 0] + x[0, 2], x[2, 1] + x[1, 2], x[2, 2] - x[0, 0] - x[1, 1], x[1, 0] - x[0, 1]],
            [x[2, 1] - x[1, 2], x[0, 2] - x[2, 0], x[1, 0] - x[0, 1], x[0, 0] + x[1, 1] + x[2, 2]],
        ])  # fmt: skip
        vector = np.linalg.eigh(K)[1][:, -1]
        quaternion = np.array([vector[3], *vector[:3]])
        found.append(-quaternion if found and quaternion @ found[-1] < 0.0 else quaternion)
    return np.array(found)


class Spline:
    """The cubic spline through values (knots, n) at places, and its first two derivatives; at rest at both ends, or without curvature."""

    def __init__(self, places: np.ndarray, values: np.ndarray, rest: bool = False) -> None:
        h, slopes = np.diff(places), np.diff(values, axis=0) / np.diff(places)[:, None]
        n = len(places)
        A, b = np.zeros((n, n)), np.zeros((n, values.shape[1]))
        for i in range(1, n - 1):  # of second derivatives
            A[i, i - 1 : i + 2] = h[i - 1], 2.0 * (h[i - 1] + h[i]), h[i]
            b[i] = 6.0 * (slopes[i] - slopes[i - 1])
        if rest:
            A[0, :2], A[-1, -2:] = (2.0 * h[0], h[0]), (h[-1], 2.0 * h[-1])
            b[0], b[-1] = 6.0 * slopes[0], -6.0 * slopes[-1]
        else:
            A[0, 0] = A[-1, -1] = 1.0
        curve = np.linalg.solve(A, b)
        rate = slopes - h[:, None] * (2.0 * curve[:-1] + curve[1:]) / 6.0
        self._places = places
        #: Coefficients of powers from each knot, (4, pieces, n).
        self._pieces = np.stack([values[:-1], rate, 0.5 * curve[:-1], np.diff(curve, axis=0) / (6.0 * h[:, None])])

    def __call__(self, t: Any) -> tuple[Any, Any, Any]:
        """Return value and derivatives at a number, traced or not, or at numbers (..., 1)."""
        if isinstance(t, (float, int, np.floating, np.ndarray)):
            number = np.asarray(t, dtype=float)
            i = np.clip(np.searchsorted(self._places, number, side="right") - 1, 0, len(self._places) - 2)
            d, pieces = number - self._places[i], self._pieces[:, i]
            if number.ndim:
                pieces = pieces[..., 0, :]
            a, b, c, e = pieces
            return a + d * (b + d * (c + d * e)), b + d * (2.0 * c + 3.0 * d * e), 2.0 * c + 6.0 * d * e
        a, b, c, e = self._pieces[:, 0].astype(object)
        start: Any = self._places[0]
        for i in range(1, len(self._places) - 1):
            later = t >= self._places[i]
            start = where(later, self._places[i], start)
            a, b, c, e = (
                np.array([where(later, new, old) for new, old in zip(self._pieces[k, i], x, strict=True)], dtype=object)
                for k, x in enumerate((a, b, c, e))
            )
        d = t - start
        return a + d * (b + d * (c + d * e)), b + d * (2.0 * c + 3.0 * d * e), 2.0 * c + 6.0 * d * e
