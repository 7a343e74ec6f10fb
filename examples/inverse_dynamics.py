"""Computed torque: a 7-joint arm follows a smooth path although it starts beside it.

Inverse dynamics turns the wanted accelerations into joint torques; forward dynamics stands for the real arm.
"""

import numpy as np

import catena as ct
from catena.examples import arm

m = arm()
forward, inverse = ct.forward_dynamics(m), ct.inverse_dynamics(m)
start, end, duration = np.zeros(7), np.array([0.8, 0.6, -0.5, 1.2, 0.4, -0.7, 1.0]), 2.0


def path(t):
    """Return position, velocity and acceleration of a path that starts and ends at rest."""
    s = t / duration
    blend = 10 * s**3 - 15 * s**4 + 6 * s**5, 30 * s**2 - 60 * s**3 + 30 * s**4, 60 * s - 180 * s**2 + 120 * s**3
    q, v, a = (np.multiply.outer(part, end - start) / duration**order for order, part in enumerate(blend))
    return start + q, v, a


# the torques along the whole path, in one call
times = np.linspace(0.0, duration, 201)
tau = inverse(*path(times))
print("largest torques along the path [N m]:")
print(np.abs(tau).max(axis=0).round(2))


def rates(t, q, v):
    """Return the rates of q and v under the control law."""
    wanted_q, wanted_v, wanted_a = path(t)
    tau = inverse(q, v, wanted_a + 20.0 * (wanted_v - v) + 100.0 * (wanted_q - q))
    return v, forward(q, v, tau)


q, v, step = start + 0.05, np.zeros(7), 0.002
for k in range(round(duration / step) + 1):
    t = k * step
    if k % 250 == 0:
        print(f"t = {t:.1f} s: off the path by {np.abs(q - path(t)[0]).max():.1e} rad")
    k1 = rates(t, q, v)
    k2 = rates(t + step / 2, q + step / 2 * k1[0], v + step / 2 * k1[1])
    k3 = rates(t + step / 2, q + step / 2 * k2[0], v + step / 2 * k2[1])
    k4 = rates(t + step, q + step * k3[0], v + step * k3[1])
    q = q + step / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
    v = v + step / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
