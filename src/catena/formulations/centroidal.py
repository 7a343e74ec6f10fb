"""Centre of mass and momentum of bodies together.

Source   Orin, Goswami, Lee, Centroidal dynamics of a humanoid robot, Autonomous Robots 35, 2013; momenta by recursions as in [J91] §3.
Frames   every quantity of body k is expressed in the frame of body k, at its joint; results in the world's axes, momenta about the centre
         of mass of the bodies chosen.
Cost     O(n); nothing branches on a value, so the functions can be traced.

    here    meaning
    X, S    placement of a body in its parent, joint matrix
    m, h    mass and first moment of a body and all that it carries, of those chosen
    R       composite inertia of these
    f       momentum of these, or its rate
    c       centre of mass of all that are chosen
    A       centroidal momentum matrix: momentum = A v

`M` has the inertias of the bodies, those that are not chosen zero, last that of what is welded to the ground.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inertias import composite_inertias
from catena.formulations.kinematics import angular_velocities, placements, velocities, world_frames
from catena.spatial import cross, first_moment, gyroscopic


def chosen_inertias(tree, of):
    """Return the inertias M of a body and what hangs on it; of all that moves where `of` is None, of the ground's own too for "ground"."""
    if of is None:
        return [*tree.M, np.zeros((6, 6))]
    root = tree.frames[of][0]
    carried = [root == -1] * tree.n
    for k in range(tree.n):
        carried[k] = carried[k] or k == root or (tree.parent[k] >= 0 and carried[tree.parent[k]])
    M = [tree.M[k] if carried[k] else np.zeros((6, 6)) for k in range(tree.n)]
    return [*M, tree.ground_inertia if root == -1 else np.zeros((6, 6))]


def center_of_mass(tree, q, M):
    """Return the centre of mass."""
    X, _ = placements(tree, q)
    return _center(tree, X, M)[0]


def center_of_mass_velocity(tree, q, v, M):
    """Return the velocity of the centre of mass."""
    X, _, V = velocities(tree, q, v)
    f = _at_ground(tree, X, [M[k] @ V[k] for k in range(tree.n)])
    return f[3:] / _mass(tree, M)


def center_of_mass_acceleration(tree, q, v, vdot, M):
    """Return the acceleration of the centre of mass."""
    return _force(tree, q, v, vdot, M)[1][3:] / _mass(tree, M)


def center_of_mass_jacobian(tree, q, M):
    """Return the 3 x nv matrix that maps v to the velocity of the centre of mass."""
    X, S = placements(tree, q)
    _, mass, h = _center(tree, X, M)
    frames, J = world_frames(tree, q), np.zeros((3, tree.nv)).astype(object)
    for k in range(tree.n):
        tree.mark()
        for c, s in zip(range(tree.v_slices[k].start, tree.v_slices[k].stop), S[k].T, strict=True):
            J[:, c] = frames[k].R @ ((mass[k] * s[3:] + cross(s[:3], h[k])) / mass[-1])
    return J


def momentum(tree, q, v, M):
    """Return the momentum about the centre of mass: angular, linear."""
    X, _, V = velocities(tree, q, v)
    return _about(_center(tree, X, M)[0], _at_ground(tree, X, [M[k] @ V[k] for k in range(tree.n)]))


def momentum_rate(tree, q, v, vdot, M):
    """Return the rate of the momentum about the centre of mass."""
    X, f = _force(tree, q, v, vdot, M)
    return _about(_center(tree, X, M)[0], f)


def momentum_matrix(tree, q, M):
    """Return the centroidal momentum matrix A, 6 x nv."""
    X, S = placements(tree, q)
    R, (c, _, _) = composite_inertias(tree, X, M[:-1]), _center(tree, X, M)
    frames, A = world_frames(tree, q), np.zeros((6, tree.nv)).astype(object)
    for k in range(tree.n):
        tree.mark()
        F = R[k] @ S[k]
        for i, column in zip(range(tree.v_slices[k].start, tree.v_slices[k].stop), F.T, strict=True):
            A[:, i] = _about(c, frames[k].force(column))
    return A


def _mass(tree, M):
    return sum((M[k][3, 3] for k in range(-1, tree.n)), 0.0)


def _center(tree, X, M):
    """Return the centre of mass in the world, and masses m and first moments h of what each body carries; last the ground's."""
    m, h = [x[3, 3] for x in M], [first_moment(x) for x in M]

    # inward: J91 (25), of which masses and moments need no inertias
    for k in tree.inward():
        p = tree.parent[k]
        m[p], h[p] = m[p] + m[k], h[p] + X[k].moment(h[k], m[k])
    return tree.ground.p + tree.ground.R @ (h[-1] / m[-1]), m, h


def _force(tree, q, v, vdot, M):
    """Return placements X, and the rate of the momentum about the world's origin."""
    X, _, W, a = angular_velocities(tree, q, v)
    (A,) = tree.columns(1)
    A[-1] = np.zeros(6)
    for k in tree.outward():
        A[k] = X[k].motion(A[tree.parent[k]]) + tree.joint_matrix(k, q) @ vdot[tree.v_slices[k]] + a[k]
    return X, _at_ground(tree, X, [M[k] @ A[k] + gyroscopic(M[k], W[k]) for k in range(tree.n)])


def _at_ground(tree, X, f):
    """Return the sum of forces or momenta of the bodies, about the world's origin in the world's axes."""
    f = [*f, np.zeros(6)]
    for k in tree.inward():
        p = tree.parent[k]
        f[p] = f[p] + X[k].force(f[k])
    return tree.ground.force(f[-1])


def _about(c, f):
    """Return a force or momentum about another point."""
    return np.concatenate([f[:3] - cross(c, f[3:]), f[3:]])
