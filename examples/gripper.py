"""A gripper on an arm: a finger attached to a palm twice, the gripper attached to the arm by one line, and both moved by servos.

The fingers are parallelograms, two loops that stay closed, and a coupling keeps them alike. The robot goes through a file, and moves as
before. Run it with the path of a picture, or it writes gripper.png to the current folder.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import catena as ct


def finger():
    """Return a parallelogram: the pad keeps its direction while the bars turn."""
    m = ct.Model("finger")
    m.add("crank", ct.box(0.03, 0.015, 0.12, mass=0.08, com=(0, 0, 0.06)), ct.Revolute("x", limits=(-0.6, 1.0)))
    m.add("follower", ct.box(0.03, 0.015, 0.12, mass=0.08, com=(0, 0, 0.06)), ct.Revolute("x"), at=(0, 0.05, 0))
    m.add("pad", ct.box(0.05, 0.015, 0.12, mass=0.06, com=(0, -0.01, 0.05)), ct.Revolute("x"), parent="crank", at=(0, 0, 0.12))
    m.close("pin", ct.Revolute("x"), "pad", "follower", at_a=(0, 0.05, 0), at_b=(0, 0, 0.12))
    return m


def gripper():
    """Return two fingers on a palm: the second is the first, turned by half a turn."""
    m = ct.Model("gripper")
    m.add("palm", ct.box(0.06, 0.24, 0.04, mass=0.5), ct.Fixed())
    for side, turn in (("left", 0.0), ("right", np.pi)):
        m.attach(finger(), to="palm", at=ct.Pose((0, 0, 0.02), rpy=(0, 0, turn)) @ ct.Pose((0, 0.06, 0)), prefix=f"{side}_")
    m.couple("alike", {"left_crank": 1.0, "right_crank": -1.0})
    m.add_actuator("grip", "left_crank", kp=20.0, kv=1.0, control_limits=(-0.5, 0.9))
    return m


def arm():
    """Return an arm with three joints, each with a servo."""
    m = ct.Model("arm")
    m.add("column", ct.cylinder(0.3, 0.06, mass=6.0, com=(0, 0, 0.15)), ct.Revolute("z", effort=60.0, velocity=2.0))
    m.add("upper", ct.cylinder(0.4, 0.04, mass=4.0, com=(0, 0, 0.2)), ct.Revolute("y", effort=90.0, velocity=2.0), "column", (0, 0, 0.3))
    m.add("lower", ct.cylinder(0.35, 0.03, mass=2.0, com=(0, 0, 0.175)), ct.Revolute("y", effort=50.0, velocity=3.0), "upper", (0, 0, 0.4))
    for joint in ("column", "upper", "lower"):
        m.add_actuator(joint, joint, kp=400.0, kv=60.0)
    return m


robot = arm()
robot.attach(gripper(), to="lower", at=(0, 0, 0.37), prefix="hand_")
print(robot)

start = robot.assemble(column=0.0, upper=0.3, lower=1.0, hand_left_crank=0.0)
act = ct.actuator_forces(robot)
run = ct.simulate(robot, start, until=2.0, controller=lambda t, q, v: act(q, v, [0.8, 0.5, 1.4, 0.6 * np.sin(3.0 * t)]))
print("loops closed to 1e-9 m:", bool(run.loop_error.max() < 1e-9))
print("limits exceeded:", ", ".join(run.exceeded()) or "none")

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "robot.toml")
    robot.save(file)
    again = ct.load(file)
step = [ct.stepper(m, 1e-3, controls=True) for m in (robot, again)]
states = [move(run.q[-1], run.v[-1], [0.8, 0.5, 1.4, 0.0]) for move in step]
print("the robot from a file makes the same step:", np.allclose(*states, rtol=0.0, atol=1e-12))

robot.draw(sys.argv[1] if len(sys.argv) > 1 else "gripper.png", run.q[-1], size=(960, 540))
