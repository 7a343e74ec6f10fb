"""The five-bar linkage of Critchley and Anderson: which coordinates may depend on the others, and its motion by two methods.

Bars 1 to 3 turn; bar 4 slides on bar 3, and in a slot of the ground. All are thin rods of 1 m and 1 kg, released from rest in the vertical
plane. Run it with the path of a picture, or it writes five_bar.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import catena as ct

m = ct.Model("five-bar")
bar, hinge = ct.rod(1.0, mass=1.0), ct.Revolute("-y")  # positive angles lead upwards
m.add("bar1", bar, hinge)
m.add("bar2", bar, hinge, parent="bar1", at=(1, 0, 0))
m.add("bar3", bar, hinge, parent="bar2", at=ct.Pose((1, 0, 0), rpy=(0, np.pi / 4, 0)))
m.add("bar4", bar, ct.Prismatic("x"), parent="bar3", at=(1, 0, 0))
m.close("slot", ct.Prismatic("x"), "bar4", "ground", at_a=(1, 0, 0), at_b=(2, 0, np.sqrt(2)))  # the fifth joint
start = np.array([np.pi / 4, np.pi / 2, -np.pi / 2, 0.0])

# the last three coordinates cannot depend on the first two; the second, third and fifth can on the others
for independent in (["bar1", "bar2"], ["bar1", "bar4"]):
    try:
        print(ct.reduced(m, independent))
    except ct.ModelError as error:
        print(error)

t = np.linspace(0.0, 2.0, 201)
methods = ("coordinate-reduction", "fully-recursive/joint")
runs = [ct.simulate(m, start, until=2.0, record=t, rtol=1e-11, atol=1e-12, method=method) for method in methods]
print(f"the motions by {' and '.join(methods)} differ by less than 1e-9: {bool(np.abs(runs[0].q - runs[1].q).max() < 1e-9)}")
print(f"energy changes by less than 1e-10: {bool(np.abs(runs[0].energy_change).max() < 1e-10)}")
tilt = runs[0]["bar1"] + runs[0]["bar2"] - np.pi / 2  # of bar 2
before = np.flatnonzero(np.diff(np.sign(tilt)))
first, second = t[before] + 0.01 * tilt[before] / (tilt[before] - tilt[before + 1])
print(f"bar 2 is upright after {first:.2f} s and {second:.2f} s: there coordinates 2, 3 and 5 cannot depend either")

figure = Figure(figsize=(9.0, 4.2), layout="constrained")
shape, motion = figure.subplots(1, 2, width_ratios=(1.2, 1.0))
poses = ct.poses(m)
for k, shade in zip((0, 40, 60, 80, 100, 120), np.linspace(0.0, 0.75, 6), strict=True):
    frames = poses(runs[0].q[k])
    joints = np.stack([*frames[:, :3, 3], frames[-1, :3] @ [1.0, 0.0, 0.0, 1.0]])
    shape.plot(joints[:, 0], joints[:, 2], "o-", color=str(shade), linewidth=1.8, markersize=4)
shape.axhline(np.sqrt(2), color="0.6", linestyle="--", linewidth=0.8, zorder=0)
shape.set(aspect="equal", xlabel="x [m]", ylabel="z [m]", ylim=(-0.2, 1.7))
shape.set_title("the bars at 0, 0.4, 0.6, 0.8, 1.0 and 1.2 s, the first black", fontsize="medium")
for name, label, color in (("bar1", "q1 [rad]", "#0072B2"), ("bar4", "q4 [m]", "#D55E00")):
    motion.plot(t, runs[0][name], color=color, linewidth=1.2, label=label)
    motion.plot(t[::10], runs[1][name][::10], "o", color=color, markersize=3.5, markerfacecolor="none")
motion.set(xlabel="time [s]", xlim=(0.0, 2.0))
motion.set_title("lines: coordinate reduction; circles: multipliers", fontsize="medium")
motion.legend(fontsize="small")
motion.grid(alpha=0.3)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "five_bar.png", dpi=110)
