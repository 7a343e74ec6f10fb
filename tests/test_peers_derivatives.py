"""Comparison of derivatives with Pinocchio's: 1e-10 relative.

Both differentiate positions along velocities, so that dq_peer = T dq as v_peer = T v; `catena.comparison.peers` has the relation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests import mechanisms
from tests.referee import relative
from tests.test_linkages import states as linkage_states
from tests.test_peers import PINOCCHIO, TOLERANCE, Pinocchio, random_tree
from tests.test_peers_loops import LoopedPinocchio

import catena as ct
from catena.comparison import peers
from catena.examples import arm, four_bar, stewart_ups

pytestmark = pytest.mark.peers

STATES = 5

#: The joints whose derivatives Pinocchio has; universal ones are taken apart.
JOINTS = {kind: make for kind, make in PINOCCHIO.items() if kind != "universal"}


def walker() -> ct.Model:
    """A floating trunk with a head on a ball joint, arms of hinges, legs that shorten, and all that resists in joints."""
    m = ct.Model("walker")
    m.add("trunk", ct.box(0.2, 0.3, 0.5, mass=20.0), ct.Free())
    m.add("head", ct.sphere(0.12, mass=4.0), ct.Spherical(damping=0.5), parent="trunk", at=ct.Pose((0, 0, 0.35), rpy=(0.2, 0.1, 0)))
    for side, y in (("left", 0.2), ("right", -0.2)):
        hip = ct.Pose((0, y, -0.25), rpy=(0.1, 0.0, 0.2))
        m.add(f"{side}_shoulder", ct.box(0.1, 0.1, 0.1, mass=1.0), ct.Revolute("x", friction=0.2), parent="trunk", at=(0, y, 0.2))
        m.add(f"{side}_arm", ct.box(0.1, 0.1, 0.4, mass=2.0), ct.Spherical(), parent=f"{side}_shoulder", at=(0, 0, -0.1))
        m.add(f"{side}_thigh", ct.box(0.1, 0.1, 0.4, mass=6.0), ct.Spherical(armature=0.1), parent="trunk", at=hip)
        m.add(f"{side}_shin", ct.box(0.1, 0.1, 0.4, mass=3.0), ct.Prismatic("z", stiffness=80.0), parent=f"{side}_thigh", at=(0, 0, -0.4))
        m.add(f"{side}_foot", ct.box(0.2, 0.1, 0.05, mass=1.0), ct.Revolute("y", damping=0.3), parent=f"{side}_shin", at=(0, 0, -0.4))
    return m


def apart(m: ct.Model) -> ct.Model:
    """The model with hinges for universal joints; coordinates are the same, and have other names."""
    found = ct.Model(m.name, gravity=m.gravity)
    for link in m.links:
        parent, joint, at = link.parent, link.joint, link.at
        if isinstance(joint, ct.Universal):
            between = f"{link.name}/between"
            found.add(between, ct.Body(0.0), ct.Revolute(joint.axis1, armature=joint.armature[0]), parent=parent, at=at)
            parent, joint, at = between, ct.Revolute(joint.axis2, armature=joint.armature[1]), ct.Pose()
        found.add(link.name, link.body, joint, parent=parent, at=at)
    for loop in m.loops:
        found.close(loop.name, loop.joint, loop.a, loop.b, at_a=loop.at_a, at_b=loop.at_b)
    return found


def assert_equals_pinocchio(m: ct.Model, theirs: ct.Model) -> None:
    """Values and matrices of forward and inverse dynamics equal those of a model in Pinocchio, on a batch of states."""
    peer = Pinocchio(theirs)
    q, v, x = mechanisms.state(m, 5, batch=(STATES,))
    known = {"q": q, "v": v, "tau": x, "vdot": x}
    for make in (ct.forward_dynamics_derivatives, ct.inverse_dynamics_derivatives):
        for output, expected in zip(make(m)(q, v, x), peer.results(make.__name__, known), strict=True):
            for one, other in zip(output, expected, strict=True):
                assert relative(one, other) < TOLERANCE


@pytest.mark.parametrize("build", [arm, walker], ids=["arm", "walker"])
def test_derivatives_of_robots_equal_pinocchio(build: Callable[[], ct.Model]) -> None:
    m = build()
    assert_equals_pinocchio(m, m)


@pytest.mark.parametrize("kind", JOINTS)
def test_derivatives_of_a_chain_of_one_kind_of_joint_equal_pinocchio(kind: str) -> None:
    """A planar joint has rates in the parent's axes here and in the child's there, which adds the terms of `peers` along its angle."""
    m = random_tree(7, {kind: JOINTS[kind]}, 3, armature=True)
    assert_equals_pinocchio(m, m)


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_of_random_trees_equal_pinocchio(seed: int) -> None:
    m = random_tree(seed, JOINTS, len(JOINTS) + 2, armature=bool(seed))
    assert_equals_pinocchio(m, m)


@pytest.mark.parametrize("seed", range(2))
def test_derivatives_of_universal_joints_equal_those_of_two_hinges_in_pinocchio(seed: int) -> None:
    """Pinocchio's own derivatives of universal joints are wrong, by its own differences: they take the joint matrix for a constant in the
    child's axes, and its first column turns with the second angle.
    """
    m = random_tree(seed, {kind: PINOCCHIO[kind] for kind in ("universal", "revolute", "spherical")}, 5, armature=True)
    assert_equals_pinocchio(m, apart(m))
    assert "universal" in peers.why_not_results(m, "forward_dynamics_derivatives")


# with loops


def slide_and_four_bar() -> ct.Model:
    """A four-bar closed by a point, after a mass on a slide of its own."""
    m, bars = ct.Model("slide and four-bar"), four_bar()
    m.add("slide", ct.point_mass(1.0), ct.Prismatic("x"))
    for link in bars.links:
        m.add(link.name, link.body, link.joint, parent=link.parent, at=link.at)
    (pin,) = bars.loops
    m.close(pin.name, ct.Spherical(), pin.a, pin.b, at_a=pin.at_a, at_b=pin.at_b)
    return m


@pytest.mark.parametrize(("build", "redundant"), [(slide_and_four_bar, True), (stewart_ups, False)], ids=["four-bar", "stewart"])
def test_derivatives_with_loops_equal_pinocchio_along_closed_motions(build: Callable[[], ct.Model], redundant: bool) -> None:
    """Pinocchio's matrices take all coordinates for free, and hold for these motions as well. Positions change along the columns of N, with
    the independent rates y held, so that velocities N y change by dN y; then velocities change alone.

    Pinocchio 4.1 counts the column of the first coordinate nv times too often where it turns a body (`RigidConstraintModel` begins its
    `loop_span_indexes` with nv zeros): the first coordinates here are slides.
    """
    m = build()
    peer, kernel, reduced = LoopedPinocchio(apart(m), redundant), ct.forward_dynamics_derivatives(m), ct.reduced(m)
    independent = [m.v_names.index(name) for name in reduced.names]
    for q, v, tau in linkage_states(m, STATES):
        N, N_by_q = reduced.basis(q), reduced.basis.jvp("q")
        changes = np.stack([N_by_q(q, dq)[1] @ v[independent] for dq in N.T], axis=1)
        vdot, by_q, by_v, by_tau = kernel(q, v, tau)
        expected = peer.closed_derivatives(q, v, tau)
        assert relative(vdot, expected[0]) < TOLERANCE
        assert relative(by_q @ N + by_v @ changes, expected[1] @ N + expected[2] @ changes) < TOLERANCE
        assert relative(by_v @ N, expected[2] @ N) < TOLERANCE
        assert relative(by_tau, expected[3]) < TOLERANCE
        assert relative(by_q, expected[1]) > 0.01  # other motions are others
