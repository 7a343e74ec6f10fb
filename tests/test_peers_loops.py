"""Comparison with Pinocchio's `constraintDynamics` on mechanisms with loops: 1e-10 relative, on batches of states.

Pinocchio closes loops between frames (six rows) and between points (three rows): a fixed joint is a pair of frames, a ball a pair of
points, and a hinge two pairs of points on its axis, of which one row is redundant. Redundant rows need its proximal iteration, which damps
the multipliers by mu; where there are none mu is 0, and nothing is iterated. Baumgarte's gains are zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pinocchio
import pytest
from tests.mechanisms import closing_methods
from tests.referee import Referee, relative
from tests.test_linkages import MOBILITY, model
from tests.test_linkages import states as linkage_states
from tests.test_peers import TOLERANCE
from tests.test_random_loops import Builder, states

import catena as ct
from catena.comparison.peers import Pinocchio
from catena.formulations import METHODS
from catena.loops.plan_library import plan_of

pytestmark = pytest.mark.peers

STATES = 3


class LoopedPinocchio(Pinocchio):
    """A catena model in Pinocchio, with its loops; what acts by itself is given to it as joint forces."""

    def __init__(self, m: ct.Model, redundant: bool) -> None:
        super().__init__(m)
        self.constraints, self.ends = pinocchio.StdVec_RigidConstraintModel(), pinocchio.StdVec_RigidConstraintData()
        for loop in m.loops:
            kind = pinocchio.ContactType.CONTACT_6D if isinstance(loop.joint, ct.Fixed) else pinocchio.ContactType.CONTACT_3D
            for offset in self._points(loop.joint):
                ends = []
                for body, at in ((loop.a, loop.at_a), (loop.b, loop.at_b)):
                    index, place = self.carried[body]
                    ends += [index, place * pinocchio.SE3(at.R, at.p + at.R @ offset)]
                self.constraints.append(pinocchio.RigidConstraintModel(kind, self.model, *ends, pinocchio.ReferenceFrame.LOCAL))
                self.ends.append(self.constraints[-1].createData())
        self.mu, self.most = (1e-6, 30) if redundant else (0.0, 1)
        pinocchio.initConstraintDynamics(self.model, self.data, self.constraints, self.ends)

    @staticmethod
    def _points(joint: object) -> list[np.ndarray]:
        if isinstance(joint, (ct.Fixed, ct.Spherical)):
            return [np.zeros(3)]
        assert isinstance(joint, ct.Revolute)
        return [np.zeros(3), 0.3 * np.array(joint.axis)]

    def joint_forces(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Return tau with the joint forces that do what acts by itself."""
        referee = Referee(self.m)
        wrenches, joint_force = referee.loads(0.0, q, v, referee.motion(q, v))
        return tau + joint_force + referee.passive(q, v) + np.einsum("nij,ni->j", referee.jacobian(q), wrenches.reshape(-1, 6))

    def closed_forward(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
        return self._closed(q, v, self.joint_forces(q, v, tau))[0]

    def closed_derivatives(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return vdot and its derivatives by q, v and tau, along all coordinates; nothing acts by itself, and no joint is planar."""
        vdot, T, settings = self._closed(q, v, tau)
        found = pinocchio.computeConstraintDynamicsDerivatives(self.model, self.data, self.constraints, self.ends, settings)
        return vdot, *(T.T @ matrix @ T for matrix in found[:3])

    def _closed(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, pinocchio.ProximalSettings]:
        """Return vdot, T, and the settings that now know the number of iterations."""
        position, T, drift = self.state(q, v)
        settings = pinocchio.ProximalSettings(1e-14, 1e-14, self.mu, self.most)
        theirs = pinocchio.constraintDynamics(self.model, self.data, position, T @ v, T @ tau, self.constraints, self.ends, settings)
        return T.T @ (theirs - drift), T, settings


def assert_equals_pinocchio(m: ct.Model, batch: list[tuple[np.ndarray, np.ndarray, np.ndarray]], redundant: bool) -> None:
    peer = LoopedPinocchio(m, redundant)
    for q, v, tau in batch:
        expected, force = peer.closed_forward(q, v, tau), peer.joint_forces(q, v, tau)
        for name in closing_methods(m):
            found = METHODS[name].closes.forward_dynamics(m.tree(), q, v, force, plan=plan_of(m, name, q))  # type: ignore[union-attr]
            assert relative(np.asarray(found.vdot, dtype=float), expected) < TOLERANCE


@pytest.mark.parametrize("name", [name for name in MOBILITY if name not in ("delta-ruu", "stewart-ucu")])  # no universal joint closes loops
def test_examples_equal_pinocchio(name: str) -> None:
    assert_equals_pinocchio(model(name), linkage_states(model(name), STATES), redundant=MOBILITY[name][3] > 0)


def ring(word: str, base: str, seed: int) -> Builder:
    """A loop on the ground or on a floating base."""
    built = Builder(seed, floating=base == "base")
    built.bridge(word, base, base, "loop")
    return built


def pair(word: str, base: str, seed: int) -> Builder:
    """A loop, and another from its base to a body of it."""
    built = ring(word, base, seed)
    built.bridge("RUSRS", base, "loop1", "other", cut=2)
    return built


@pytest.mark.parametrize("base", ["ground", "base"])
@pytest.mark.parametrize("word", ["RRRRRRRF", "RURSRRF", "RPRURS", "RUSS"])
@pytest.mark.parametrize("make", [ring, pair])
def test_loops_closed_by_frames_and_points_equal_pinocchio(make: Callable[..., Builder], word: str, base: str) -> None:
    m = make(word, base, 3).m
    assert_equals_pinocchio(m, states(m, STATES, seed=3), redundant=False)
