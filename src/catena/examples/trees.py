"""Examples without loops: chains and trees of bodies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from catena.facade import Model
from catena.model import (
    Body,
    Custom,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Pose,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
    box,
    cylinder,
    point_mass,
    rod,
    sphere,
)


def arm() -> Model:
    """Return an arm of 7 hinges that reaches 1.2 m.

    Axes lie in turn along and across the links, with offsets and full inertias; 22 kg.

    >>> examples.arm().v_names
    ('shoulder1', 'shoulder2', 'upper', 'elbow', 'fore', 'wrist', 'hand')
    """
    m, parent = Model("arm"), "ground"
    bodies: dict[str, tuple[Body, tuple[float, ...], str, Any]] = {
        "shoulder1": (
            cylinder(0.20, 0.075, mass=4.2, com=(0.002, -0.031, 0.112)), (0.0232, 0.0198, 0.0121, 0.0003, -0.0002, 0.0041),
            "z", (0.0, 0.0, 0.15),
        ),
        "shoulder2": (
            cylinder(0.22, 0.070, mass=4.4, axis="z", com=(-0.001, 0.042, 0.071)), (0.0261, 0.0223, 0.0108, -0.0002, 0.0004, -0.0052),
            "y", (0.0, 0.010, 0.19),
        ),
        "upper": (
            cylinder(0.24, 0.065, mass=3.6, com=(0.012, 0.028, 0.118)), (0.0214, 0.0207, 0.0084, 0.0006, -0.0018, -0.0027),
            "z", (0.005, -0.010, 0.21),
        ),
        "elbow": (
            cylinder(0.20, 0.062, mass=3.4, com=(-0.018, 0.034, 0.066)), (0.0178, 0.0156, 0.0079, 0.0008, 0.0011, -0.0033),
            "-y", (0.060, 0.0, 0.21),
        ),
        "fore": (
            cylinder(0.22, 0.055, mass=2.6, com=(0.004, 0.019, 0.132)), (0.0142, 0.0134, 0.0047, -0.0001, 0.0005, -0.0024),
            "z", (-0.060, 0.015, 0.18),
        ),
        "wrist": (
            cylinder(0.14, 0.050, mass=2.1, com=(0.031, 0.006, 0.028)), (0.0047, 0.0063, 0.0052, 0.0004, -0.0012, -0.0003),
            "y", (0.0, -0.015, 0.22),
        ),
        "hand": (
            box(0.09, 0.06, 0.16, mass=1.6, com=(0.009, -0.004, 0.084)), (0.0041, 0.0046, 0.0018, 0.0002, -0.0003, 0.0001),
            "z", Pose((0.075, 0.0, 0.06), rpy=(0.0, 0.0, np.pi / 4)),
        ),
    }  # fmt: skip
    for name, (shape, (xx, yy, zz, xy, xz, yz), axis, at) in bodies.items():
        body = replace(shape, inertia=((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
        m.add(name, body, Revolute(axis), parent=parent, at=at)
        parent = name
    return m


def pendulum() -> Model:
    """Return a rod on a hinge.

    It is 1 m long and weighs 1 kg; q = 0 is level, q = pi / 2 hangs down.

    >>> ct.forward_dynamics(examples.pendulum())([0.0], [0.0], [0.0]).round(3)
    array([14.715])
    """
    m = Model("pendulum")
    m.add("arm", rod(1.0, mass=1.0), Revolute("y"))
    return m


def double_pendulum() -> Model:
    """Return two rods, hinge on hinge.

    Each is 1 m long and weighs 1 kg; the second angle is relative to the first rod.

    >>> examples.double_pendulum().q_names
    ('upper', 'lower')
    """
    m = Model("double-pendulum")
    m.add("upper", rod(1.0, mass=1.0), Revolute("y"))
    m.add("lower", rod(1.0, mass=1.0), Revolute("y"), parent="upper", at=(1.0, 0.0, 0.0))
    return m


def cart_pole() -> Model:
    """Return a cart on a rail with a pole hinged on it.

    The pole stands upright at q = 0; the wheels and the hinge damp a little.

    >>> ct.mass_matrix(examples.cart_pole())([0.0, 0.0]).round(3)
    array([[1.1  , 0.025],
           [0.025, 0.008]])
    """
    m = Model("cart-pole")
    m.add("cart", box(0.3, 0.2, 0.1, mass=1.0), Prismatic("x", damping=0.05))
    m.add("pole", rod(0.5, mass=0.1, axis="z"), Revolute("y", damping=0.001), parent="cart", at=(0.0, 0.0, 0.05))
    return m


def top() -> Model:
    """Return a heavy symmetrical top with its tip in a ball joint.

    The tip is at the origin; the top is upright at the neutral position.

    >>> examples.top().neutral()
    array([1., 0., 0., 0.])
    """
    m = Model("top")
    m.add("top", cylinder(0.03, 0.05, mass=0.2, com=(0.0, 0.0, 0.06)), Spherical())
    return m


def humanoid() -> Model:
    """Return a standing figure of 1.8 m and 72 kg that floats freely.

    Its axes are x ahead, y left, z up. Hips, shoulders and waist are ball joints, neck and ankles universal joints, knees and elbows
    hinges; the hands are welded on.

    >>> examples.humanoid().nv
    31
    """
    m = Model("humanoid")
    m.add("pelvis", box(0.16, 0.30, 0.18, mass=11.0), Free())
    m.add("torso", box(0.20, 0.34, 0.46, mass=26.0, com=(0.0, 0.0, 0.23)), Spherical(), parent="pelvis", at=(0.0, 0.0, 0.10))
    m.add("head", sphere(0.11, mass=4.6, com=(0.01, 0.0, 0.13)), Universal("y", "z"), parent="torso", at=(0.0, 0.0, 0.50))
    for side, y in (("left", 1.0), ("right", -1.0)):
        arm, forearm, hand = f"{side} upper arm", f"{side} forearm", f"{side} hand"
        m.add(arm, cylinder(0.28, 0.045, mass=2.0, com=(0.0, 0.0, -0.14)), Spherical(), parent="torso", at=(0.0, 0.20 * y, 0.42))
        m.add(forearm, cylinder(0.25, 0.035, mass=1.2, com=(0.0, 0.0, -0.12)), Revolute("-y"), parent=arm, at=(0.0, 0.0, -0.29))
        m.add(hand, box(0.09, 0.03, 0.18, mass=0.4, com=(0.0, 0.0, -0.08)), Fixed(), parent=forearm, at=(0.0, 0.0, -0.26))
        thigh, shank, foot = f"{side} thigh", f"{side} shank", f"{side} foot"
        m.add(thigh, cylinder(0.42, 0.075, mass=7.5, com=(0.0, 0.0, -0.19)), Spherical(), parent="pelvis", at=(0.0, 0.09 * y, -0.05))
        m.add(shank, cylinder(0.41, 0.050, mass=3.3, com=(0.0, 0.0, -0.18)), Revolute("y"), parent=thigh, at=(0.0, 0.0, -0.43))
        m.add(foot, box(0.26, 0.09, 0.07, mass=1.0, com=(0.05, 0.0, -0.04)), Universal("y", "x"), parent=shank, at=(0.0, 0.0, -0.42))
    return m


def chain(links: int = 30) -> Model:
    """Return a chain of 30 links of 1 m on hinges about z, y, x, z, y, x and so on.

    `links` changes their number.

    >>> examples.chain(3)
    <Model 'chain': 3 bodies, nq = 3, nv = 3>
    """
    m = Model("chain")
    link = Body(1.0, com=(0.5, 0.02, -0.03), inertia=((0.012, 0.003, -0.002), (0.003, 0.091, 0.001), (-0.002, 0.001, 0.088)))
    for k in range(links):
        at = (1.0, 0.0, 0.0) if k else (0.0, 0.0, 0.0)
        m.add(f"link{k + 1}", link, Revolute("zyx"[k % 3]), parent=f"link{k}" if k else "ground", at=at)
    return m


def gallery(custom: bool = True) -> Model:
    """Return one body on each kind of joint, with every option in use.

    They stand side by side on a table. `custom=False` leaves out the custom joint, which a file cannot hold.

    >>> sorted({link.joint.kind for link in examples.gallery().links})[:4]
    ['custom', 'cylindrical', 'fixed', 'free']
    """
    m = Model("gallery", gravity=(0.0, 0.0, -9.81), friction_speed=0.02)
    m.add("table", box(2.0, 1.0, 0.05, mass=12.0), Fixed(), at=(0.0, 0.0, 0.8))
    block = box(0.10, 0.08, 0.06, mass=0.5, com=(0.05, 0.02, 0.01))
    joints: dict[str, Any] = {
        "door": Revolute("z", damping=0.1, friction=0.05),
        "drawer": Prismatic("x", damping=2.0, stiffness=40.0, rest=0.1),
        "screw": Helical("z", pitch=0.004, friction=0.02, armature=0.001),
        "piston": Cylindrical((1.0, 1.0, 0.0), damping=(0.01, 3.0)),
        "cardan": Universal("x", "y", stiffness=(0.5, 0.7), rest=(0.1, -0.2)),
        "puck": Planar("z", damping=(0.2, 0.2, 0.002)),
        "ball": Spherical(stiffness=0.4, damping=0.02),
        "drone": Free(damping=(0.01, 0.01, 0.01, 0.1, 0.1, 0.1)),
    }
    if custom:
        joints["cam"] = Custom(lambda q: (np.eye(3), np.array([q[0], 0.05 * np.sin(3.0 * q[0]), 0.0])), coordinates=1, damping=0.5)
    for i, (name, joint) in enumerate(joints.items()):
        m.add(name, block, joint, parent="table", at=Pose((0.2 * i - 0.9, 0.0, 0.05), rpy=(0.0, 0.0, 0.1 * i)))
    m.add("bell", point_mass(0.05, at=(0.0, 0.0, -0.02)), Fixed(), parent="ball", at=(0.05, 0.0, 0.0))
    return m
