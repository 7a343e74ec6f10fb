"""The four-bar linkage of Saha and Schiehlen, section VI.A: along a path, falling freely, under torques over time, and under control.

The crank is to turn from 30 to 90 degrees in 20 s, along a cycloid. The torque that this takes, put in over time, does not keep it there:
the upright linkage is unstable, and what is small grows. Control by computed torque does. Run it with the path of a picture, or it writes
four_bar.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import catena as ct

m = ct.Model("four-bar")
hinge = ct.Revolute("-y")  # positive angles lead upwards
m.add("crank", ct.rod(0.3, mass=1.5), hinge)
m.add("coupler", ct.rod(1.0, mass=5.0), hinge, parent="crank", at=(0.3, 0, 0))
m.add("rocker", ct.rod(0.6, mass=3.0), hinge, at=(1.0, 0, 0))
m.close("pin", hinge, "coupler", "rocker", at_a=(1.0, 0, 0), at_b=(0.6, 0, 0))
crank = ct.reduced(m, ["crank"])


def theta(x):
    """Return the joint angles 1 to 3 of the paper, the last less a half turn, or their rates, from those of crank, coupler and rocker."""
    return np.stack([x[:, 0], x[:, 1], x[:, 2] - x[:, 0] - x[:, 1]], axis=1)


# along the path: all positions, rates, accelerations, and the torque
path = ct.cycloidal([np.radians(30.0)], [np.radians(90.0)], duration=20.0)
start = m.assemble([0.5, 0.0, 1.2], crank=np.radians(30.0))
t = np.linspace(0.0, 20.0, 1001)  # every 0.02 s
position, rate, acceleration = path(t)
q = crank.positions(position, guess=start)
v = crank.rates(q, rate)
vdot = crank.accelerations(q, v, acceleration)
tau = ct.inverse_dynamics(m, actuated=["crank"])(q, v, vdot)
print(f"loop open by less than 1e-12 m on the way: {bool(ct.loop_error(m)(q).max() < 1e-12)}")
print("torque at 0, 5, 10, 15 and 20 s:", ", ".join(f"{x:.3f}" for x in tau[::250, 0]), "N m")

# free: released from the end of the path
free = ct.simulate(m, q[-1], until=5.0, record=np.linspace(0.0, 5.0, 1001), rtol=1e-9, atol=1e-10)
lowest, highest = np.degrees([free["crank"].min(), free["crank"].max()])
print(f"free: crank between {lowest:.2f} and {highest:.2f} degrees")
print(f"free: energy changes by less than 1e-8: {bool(np.abs(free.energy_change).max() < 1e-8)}")

# forced: the torque over time, without feedback; and with it
leaves = ct.Event("leaves", lambda t, q, v: abs(q[0] - path(t).position[0]) - np.radians(1.0), action="record")
forced = ct.simulate(m, start, until=10.0, tau=(t, tau), events=[leaves])
print(f"forced: off the path by a degree after {forced.events[0].t:.2f} s")
controlled = ct.simulate(m, start, until=20.0, controller=ct.computed_torque(m, path, ["crank"], bandwidth=1.0))
print(f"controlled: off the path by less than 1e-8 rad: {bool(np.abs(controlled.q[:, :1] - path(controlled.t).position).max() < 1e-8)}")

figure = Figure(figsize=(11.0, 6.2), layout="constrained")
((angles, rates, accelerations), (torque, falling, driven)) = figure.subplots(2, 3)
turn = np.array([0.0, 0.0, np.pi])
for axes, values, title in (
    (angles, theta(q) + turn, "joint angles [rad]"),
    (rates, theta(v), "joint rates [rad/s]"),
    (accelerations, theta(vdot), "joint accelerations [rad/s²]"),
):
    for i, color in enumerate(("#0072B2", "#D55E00", "#009E73")):
        axes.plot(t, values[:, i], color=color, linewidth=1.2, label=f"joint {i + 1}")
    axes.set_title(title, fontsize="medium")
angles.legend(fontsize="small")
torque.plot(t, tau[:, 0], color="#0072B2", linewidth=1.2)
torque.set_title("torque of the crank [N m]", fontsize="medium")
falling.plot(free.t, free["crank"], color="#0072B2", linewidth=1.2)
falling.set_title("free: angle of the crank [rad]", fontsize="medium")
driven.plot(t, position[:, 0], color="0.7", linewidth=4.0, label="path")
driven.plot(controlled.t, controlled["crank"], color="#009E73", linewidth=1.2, label="computed torque")
driven.plot(forced.t, forced["crank"], color="#D55E00", linewidth=1.0, label="torque over time")
driven.set(xlim=(0.0, 20.0), ylim=(-2.0, 4.0))
driven.set_title("forced: angle of the crank [rad]", fontsize="medium")
driven.legend(fontsize="small")
for axes in figure.axes:
    axes.set_xlabel("time [s]", fontsize="small")
    axes.grid(alpha=0.3)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "four_bar.png", dpi=100)
