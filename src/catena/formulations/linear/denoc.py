"""Dynamics of platforms on legs, by decoupled natural orthogonal complements.

Source   [SS01] Saha & Schiehlen, Recursive kinematics and dynamics for closed loop multibody systems, §IV (15)-(17), §V (18)-(34).
         Kinematics, (7)-(14): `platform_kinematics`, `leg_kinematics`.
Frames   that of the ground: motions and forces at its origin, where the propagation of twists, A, is the identity.
Cost     O(m) for m bodies of a leg, O(n) for n legs, and the factors of two matrices, of the size of the platform's motions and of n.

    paper              here    meaning
    J                  J, y0   (14): y = J theta_dot + y0 are coordinates of the platform's motion
    N_l                -       tree: the twists of the bodies from the rates of all joints
    N_c                R       rates of all joints of a leg from y and the rates of its actuated ones, with y = J theta_dot
    N_d                place   of the actuated joints in theta
    M~, M-             M, H    inertia of a leg on the rates of all its joints, by composite bodies; on y and its actuated joints
    I, tau - C thetad  GIM, f  generalised inertia (26), and the force on theta

The twists of a leg are those of a serial chain at the rates (11b), (12b), so that N_l^T w and N_l^T M N_l (IDA-1, FDA-1) are forces and
inertias of the tree, without loops; what is special to the platform comes after.

Which joints are actuated is part of the plan: as many as there are degrees of freedom, on any legs.
"""

from __future__ import annotations

import numpy as np

from catena.formulations.inverse import newton_euler
from catena.formulations.linear import cut_joints
from catena.formulations.linear.platform_kinematics import Platform
from catena.formulations.mass.composite_body import mass_matrix
from catena.spatial import Factor, reciprocal, symmetric


def inverse_dynamics(tree, q, v, acceleration, force, wrenches=None, *, plan):
    """Return the forces of actuated joints that give their accelerations, where `force` acts on all; and the kinematics' solution."""
    platform = Platform(tree, q, plan, v)
    vdot = platform.rates(acceleration)
    tau = platform.forces(newton_euler.inverse_dynamics(tree, q, v, vdot, wrenches) - force)  # (19)-(24)
    return tau, platform.solution(vdot)


def forward_dynamics(tree, q, v, tau, wrenches=None, *, plan):
    """Return the solution under the joint forces tau, for the actuated joints of the plan."""
    platform = Platform(tree, q, plan, v)
    J, y0 = platform.jacobian()
    GIM, f = inertia_on_actuated(platform, J, mass_matrix(tree, q), y0, tau - newton_euler.bias_force(tree, q, v, wrenches))
    factor = Factor(GIM)
    thetadd = factor.solve(f)  # (25)
    solved = platform.solution(platform.joint_rates(J @ thetadd + y0, thetadd))
    # what the others leave of the inertia of an actuated joint: little where a light body is between heavy ones
    felt = [[(None, factor.L[k, k] * reciprocal(GIM[k, k]), 1.0)] for k in range(len(GIM))]
    # inertias are made of what is divided by pivots, which are squares of sines: digits are lost with these squares
    return solved._replace(pivots=[[(i, pivot * pivot, size * size) for i, pivot, size in stage] for stage in (*solved.pivots, *felt)])


def generalised_inertia(platform, q):
    """Return the inertia on the actuated joints of a platform at q. (26)."""
    return inertia_on_actuated(platform, platform.jacobian()[0], mass_matrix(platform.tree, q))[0]


def inertia_on_actuated(platform, J, M, y0=None, force=None):
    """Return inertia, and force if given, on the actuated joints, from those on all joints. FDA-2, FDA-3: (30), (34)."""
    r, n = J.shape
    on_y, f_y = np.zeros((r, r)).astype(object), np.zeros(r).astype(object)
    GIM, f = np.zeros((n, n)).astype(object), np.zeros(n).astype(object)

    # leg by leg: on y and its actuated joints; (29)-(33)
    for leg in platform.legs:
        platform.tree.mark()
        at, own = leg.coordinates, [platform.place[j] for j in leg.leg.actuated]
        residual = np.concatenate([leg.K, leg.given] if force is None else [leg.K, leg.given, leg.known[:, None]], axis=1)
        R = leg.rates(residual, np.eye(residual.shape[1])[r:])
        load = M[np.ix_(at, at)] @ R
        H = symmetric(R[:, : r + len(own)].T @ load[:, : r + len(own)])
        on_y = on_y + H[:r, :r]
        crossed = J.T @ H[:r, r:]
        GIM[:, own] = GIM[:, own] + crossed
        GIM[own] = GIM[own] + crossed.T
        GIM[np.ix_(own, own)] = GIM[np.ix_(own, own)] + H[r:, r:]
        if force is not None:
            h = R[:, :-1].T @ (force[at] - load[:, -1])
            f_y, f[own] = f_y + h[:r], f[own] + h[r:] - H[r:, :r] @ y0

    # the platform: y = J theta_dot + y0; (34)
    platform.tree.mark()
    GIM = GIM + symmetric(J.T @ (on_y @ J))
    return GIM, None if force is None else f + J.T @ (f_y - on_y @ y0)


def project(tree, q, v, moved, *, plan):
    """Return the state nearest to (q, v) that meets the constraints of the plan, by kinetic energy; all pivots; and all values."""
    q, v, pivots, values = cut_joints.project(tree, q, v, moved, reference="joint", plan=plan.chosen)
    return q, v, [*pivots, *Platform(tree, q, plan).pivots], values


def complements(platform):
    """Return N_l, N_c, N_d and the coordinates whose bodies they are for, at the origin of the ground. (15)-(17).

    Every velocity coordinate has its own body: joints of several coordinates are products of joints with one. The factor
    (1/delta_i) p_i p~_i^T of (15), which (16c) lost, is in N_c.
    """
    coordinates = [j for leg in platform.legs for j in leg.coordinates]
    at = {j: slice(6 * n, 6 * n + 6) for n, j in enumerate(coordinates)}
    given = {j: slice(6 * n, 6 * n + 6) for j, n in platform.place.items()}
    bodies, motors = 6 * len(coordinates), 6 * len(given)
    N_l, N_c, N_d = np.zeros((bodies, bodies)), np.zeros((bodies, motors)), np.zeros((motors, len(given)))

    # t_e from the twists that the actuated joints give: (14a), as (16e) has it
    to_platform = np.zeros((6, motors))
    for leg in platform.legs:
        for j in leg.leg.actuated:
            columns = [platform.B @ platform.factor.solve(-(leg.projected @ x)) for x in leg.on_tip.T]
            to_platform[:, given[j]] = np.stack(columns, axis=1)

    # outward along the legs: (15)-(17)
    for leg in platform.legs:
        inboard = None
        for n, j in enumerate(leg.coordinates):
            Psi = np.eye(6)
            if j in leg.leg.actuated:
                N_c[at[j], given[j]] = np.eye(6)
                N_d[given[j], platform.place[j]] = platform.columns[j]
            else:
                row, column = leg.scaled[j], platform.columns[j]
                on_tip = np.outer(column, row @ leg.on_tip).astype(float)
                Psi = Psi - on_tip
                N_c[at[j]] = -np.outer(column, row @ leg.on_platform @ to_platform)
                for k in leg.leg.actuated:
                    if leg.coordinates.index(k) > n:
                        N_c[at[j], given[k]] -= on_tip
            if inboard is not None:
                N_l[at[j]] = Psi @ N_l[at[inboard]]
            N_l[at[j], at[j]] = np.eye(6)
            inboard = j
    return N_l, N_c, N_d, coordinates
