"""A run that takes as long as it is told, for the tests that break it off from another process."""

from __future__ import annotations

from typing import Any

import numpy as np

import catena as ct

Q0, V0 = (1.0, 0.0, 0.0, 0.0, 2.0), (0.1, 0.2, 0.3, 0.4)


def pair() -> ct.Model:
    """Return a body on a ball joint that carries another on a hinge."""
    m = ct.Model("pair")
    m.add("upper", ct.box(0.1, 0.2, 1.0, mass=1.0, com=(0, 0, 0.5)), ct.Spherical())
    m.add("lower", ct.box(0.1, 0.2, 1.0, mass=1.0, com=(0, 0, 0.5)), ct.Revolute("y"), parent="upper", at=(0, 0, 1.0))
    return m


def _controller(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([0.0, 0.0, 0.1 if t < 1.0 else 0.0, 0.0])


def run(kind: str, until: float, **more: Any) -> ct.Trajectory:
    """Return a run with fixed or adaptive steps or a controller in Python, with events that are recorded and that reset."""
    events = [
        ct.Event("up", lambda t, q, v: v[3], "record", direction=-1),
        ct.Event("brake", lambda t, q, v: np.sin(t), lambda t, q, v: (q, 0.99 * v), direction=1),
    ]
    steps: dict[str, Any] = {"step": 2e-3} if kind == "fixed" else {"rtol": 1e-6, "largest_step": 0.05}
    if kind == "python":
        steps["controller"] = ct.python(_controller)
    return ct.simulate(pair(), Q0, V0, until=until, record=10, events=events, **steps, **more)
