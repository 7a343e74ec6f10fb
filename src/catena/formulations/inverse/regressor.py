"""Inverse dynamics as a matrix times parameters: the regressor of inertias, and of what acts in the joints.

Source   [AAH86] Atkeson, An & Hollerbach, Estimation of inertial parameters of manipulator loads and links; for trees.
Frames   every quantity of a body is expressed in its user's frame, at its origin; motions come there from the canonical frames.
Cost     O(n d), with d joints between a body and the ground at most; nothing branches on a value.

    paper            here      meaning
    m, mc, I         pi        mass, first moment, and inertia at the origin: xx, xy, xz, yy, yz, zz; those of all bodies
    omega, omega'    w, alpha  angular velocity and acceleration
    p''- g           a         acceleration of the origin; gravity enters as an upward acceleration of the ground
    A                B         the part of A that gives the force of the first moment: [omega'] + [omega][omega]
    U, K             Y         tau = Y pi

The paper carries the wrench of a body, A pi, inward to the joints. Here the motion of each joint, (s, u), is carried outward to the body: a
column in place of ten. What the wrench does along it is

    u·a  for the mass,   B^T u + a x s  for the first moment,   s alpha^T + (s x w) w^T  for the inertia.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import angular_velocities, rest_acceleration
from catena.spatial import cross, skew

#: Entries of a symmetric matrix, in the order of parameters.
ENTRIES = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


def inertial_regressor(tree, q, v, vdot, bodies):
    """Return Y, nv x 10 for each of the bodies, which are named: the joint forces of their inertial parameters."""
    X, S, W, a = angular_velocities(tree, q, v)
    A, inboard = tree.columns(2)
    Y = np.zeros((tree.nv, 10 * len(bodies))).astype(object)

    # outward: accelerations, the joints inboard of each body, and what its parameters need along them
    A[-1], inboard[-1] = rest_acceleration(tree), {}
    for k in tree.outward():
        at, p = tree.v_slices[k], tree.parent[k]
        A[k] = X[k].motion(A[p]) + S[k] @ vdot[at] + a[k]
        inboard[k] = {i: X[k].motion(motion) for i, motion in inboard[p].items()}
        inboard[k] |= {i: S[k][:, c] for c, i in enumerate(range(at.start, at.stop))}
        for b, name in enumerate(bodies):
            if tree.frames[name][0] == k:
                moving = _moving(tree.frames[name][1], W[k][:3], A[k])
                for i, motion in inboard[k].items():
                    tree.mark()
                    Y[i, 10 * b : 10 * b + 10] = _along(tree.frames[name][1].motion(motion), *moving)
    return Y


def _moving(frame, w, A):
    """Return angular velocity and acceleration, and the acceleration of the origin, of a frame in a body that moves with w and A."""
    alpha, a = A[:3], A[3:]
    return frame.R.T @ w, frame.R.T @ alpha, frame.R.T @ (a + cross(alpha, frame.p) + cross(w, cross(w, frame.p)))


def _along(motion, w, alpha, a):
    """Return the power of the ten parameters of a body along a motion, where it moves with w, alpha and a."""
    s, u = motion[:3], motion[3:]
    B = skew(alpha) + skew(w) @ skew(w)
    z = cross(s, w)
    turning = [s[i] * alpha[j] + z[i] * w[j] + (s[j] * alpha[i] + z[j] * w[i] if i != j else 0.0) for i, j in ENTRIES]
    return np.array([u @ a, *(B.T @ u + cross(a, s)), *turning], dtype=object)


def joint_regressor(tree, q, v, vdot):
    """Return what damping, stiffness, friction and armature of each velocity coordinate need along it for one unit of each, nv x 4."""
    Y = np.zeros((tree.nv, 4)).astype(object)
    for k in range(tree.n):
        at = tree.v_slices[k]
        for i, stretch in zip(range(at.start, at.stop), tree.deflection(k, q), strict=True):
            Y[i] = [v[i], stretch, v[i] / np.sqrt(v[i] * v[i] + tree.friction_speed[i] ** 2), vdot[i]]
    return Y
