"""A joint of one's own: a bead on a wire bent to the parabola z = x^2 / 2.

The joint is a function from its coordinate to the pose of the body; catena differentiates it and compiles it with the rest.
"""

import numpy as np

import catena as ct


def wire(q):
    """Return rotation and position of the bead at x = q[0]."""
    return np.eye(3), np.array([q[0], 0.0, 0.5 * q[0] ** 2])


m = ct.Model("bead")
m.add("bead", ct.point_mass(0.1), ct.Custom(wire, coordinates=["x"]))
forward, energy = ct.forward_dynamics(m), ct.energy(m)

# by hand: (1 + x^2) x'' + x x'^2 + g x = 0
x, speed = np.array([0.8]), np.array([-0.3])
by_hand = -(x * speed**2 + 9.81 * x) / (1 + x**2)
print(f"acceleration {forward(x, speed, [0.0])[0]:.9f} m/s^2, by hand {by_hand[0]:.9f} m/s^2")

before = sum(energy(x, speed))
step = 0.001
for _ in range(5000):  # the midpoint rule, 5 s
    middle_x, middle_speed = x + step / 2 * speed, speed + step / 2 * forward(x, speed, [0.0])
    x, speed = x + step * middle_speed, speed + step * forward(middle_x, middle_speed, [0.0])
print(f"energy {before:.4f} J, after 5 s {sum(energy(x, speed)):.4f} J")
