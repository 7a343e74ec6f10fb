"""One body on each kind of joint: its coordinates, and how it starts to move when it is let go."""

import numpy as np

import catena as ct

slope = ct.Pose((0, 0, 0), rpy=(0, np.pi / 6, 0))  # 30 degrees down along x
joints = {
    "revolute": ct.Revolute("y"),
    "prismatic": ct.Prismatic("x"),
    "helical": ct.Helical("z", pitch=0.01),
    "cylindrical": ct.Cylindrical("x"),
    "universal": ct.Universal("x", "y"),
    "planar": ct.Planar("z"),
    "spherical": ct.Spherical(),
    "free": ct.Free(),
    "custom": ct.Custom(lambda q: (np.eye(3), np.array([q[0], 0.0, -0.5 * q[0] ** 2])), coordinates=1),
}
for kind, joint in joints.items():
    m = ct.Model(kind)
    m.add("body", ct.box(0.2, 0.1, 0.1, mass=1.0, com=(0.1, 0, 0)), joint, at=slope)
    vdot = ct.forward_dynamics(m)(m.neutral(), np.zeros(m.nv), np.zeros(m.nv))
    print(f"{kind:12} q: {', '.join(m.q_names)}")
    print(f"{'':12} v: {', '.join(m.v_names)}")
    print(f"{'':12} vdot: {vdot.round(3) + 0.0}")

m = ct.Model("fixed")
m.add("cart", ct.box(0.2, 0.1, 0.1, mass=1.0), ct.Prismatic("x"), at=slope)
m.add("load", ct.sphere(0.05, mass=3.0), ct.Fixed(), parent="cart", at=(0, 0, 0.1))
print(f"{'fixed':12} no coordinates: the load is part of the cart, mass matrix {ct.mass_matrix(m)([0.0])}")
