"""A pendulum: from nothing to accelerations in five lines."""

import catena as ct

m = ct.Model("pendulum")
m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
forward = ct.forward_dynamics(m)
vdot = forward([0.0], [0.0], [0.0])
print(f"held level and let go, the rod turns with {vdot[0]:.3f} rad/s^2; by hand, 3 g / (2 l) = {3 * 9.81 / 2:.3f} rad/s^2")
