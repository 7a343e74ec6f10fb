"""Constraints that close loops: Jacobians and right-hand sides equal derivatives, for every closing joint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import derivative, relative

import catena as ct
from catena.formulations.loops.basic_constraints import closure_residual
from catena.formulations.loops.closure_kinematics import base
from catena.formulations.loops.constraints import constraint_jacobian, constraint_motion

pytestmark = [pytest.mark.evaluated, pytest.mark.quick]

CLOSING: dict[str, Any] = {
    "spherical": ct.Spherical(), "revolute": ct.Revolute((1, 2, -1)), "universal": ct.Universal((1, 0, 1), (0, 1, 0.3)),
    "cylindrical": ct.Cylindrical((0, 1, 2)), "prismatic": ct.Prismatic((3, 1, 0)), "helical": ct.Helical((1, 1, 1), pitch=0.3),
    "planar": ct.Planar((0, 2, 1)), "fixed": ct.Fixed(), "distance": ct.Distance(1.3),
}  # fmt: skip


def looped(joint: Any, seed: int, ends: tuple[int, int] = (3, 6)) -> ct.Model:
    """A tree with a closing joint between two of its bodies, or the ground (-1), at any places."""
    rng = np.random.default_rng(seed)
    m = mechanisms.tree(rng, 7, branching=0.6)
    a, b = ("ground" if end < 0 else f"body{end}" for end in ends)
    m.close("loop", joint, a, b, mechanisms.place(rng), mechanisms.place(rng))
    m.couple("gears", {m.q_names[i]: c for i, c in zip(plain(m)[:2], (2.0, -3.0), strict=False)}, offset=0.1)
    return m


def plain(m: ct.Model) -> list[int]:
    return [at_q.start for link, at_q, _ in m.slices() if link.joint.nq == link.joint.nv > 0]


def values(m: ct.Model, q: Any, rows: Any = None) -> np.ndarray:
    return np.asarray(constraint_jacobian(m.tree(), q, *([rows] if rows else []))[0], dtype=float)


@pytest.mark.parametrize("ends", [(3, 6), (6, -1), (-1, 5)])
@pytest.mark.parametrize("kind", CLOSING)
def test_jacobian_and_right_hand_side_are_derivatives_of_the_values(kind: str, ends: tuple[int, int]) -> None:
    """Along a motion with constant rates: the first rate of the values is J v, the second is less the right-hand side."""
    for seed in range(3):
        m = looped(CLOSING[kind], seed, ends)
        q, v, _ = mechanisms.state(m, seed)
        tree = m.tree()
        J = np.asarray(constraint_jacobian(tree, q)[1], dtype=float)
        rate = derivative(lambda t, m=m, q=q, v=v: values(m, m.integrate(q, t * v)))
        assert relative(J @ v, rate, scale=np.abs(J).max() * np.abs(v).max()) < 1e-9

        def velocity(t: float, m: ct.Model = m, q: Any = q, v: Any = v) -> np.ndarray:
            return np.asarray(constraint_jacobian(m.tree(), m.integrate(q, t * v))[1], dtype=float) @ v

        g = np.asarray(constraint_motion(tree, q, v)[1], dtype=float)
        assert relative(-g, derivative(velocity), scale=max(np.abs(g).max(), 1.0)) < 1e-8
        wide = np.asarray(constraint_jacobian(tree, q, closure_residual)[1], dtype=float)
        rate = derivative(lambda t, m=m, q=q, v=v: values(m, m.integrate(q, t * v), closure_residual))
        assert relative(wide @ v, rate, scale=np.abs(wide).max() * np.abs(v).max()) < 1e-9


@pytest.mark.parametrize("kind", CLOSING)
def test_there_are_as_many_rows_as_the_joint_takes_freedom(kind: str) -> None:
    m = looped(CLOSING[kind], 0)
    freedom = 5 if kind == "distance" else CLOSING[kind].nv
    assert constraint_jacobian(m.tree(), m.random(0))[1].shape == (6 - freedom + 1, m.nv)


def test_joints_inboard_of_the_base_do_not_move_a_loop() -> None:
    m = looped(ct.Spherical(), 2)
    tree = m.tree()
    k, columns = base(tree, tree.closures[0]), np.asarray(constraint_jacobian(tree, m.random(1))[1][:3], dtype=float)
    while k >= 0:
        assert not columns[:, tree.v_slices[k]].any()
        k = tree.parent[k]
