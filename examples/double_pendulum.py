"""Two double pendulums, let go a millionth of a radian apart: where their tips go, and when they part.

Run it with the path of a picture, or it writes double_pendulum.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import catena as ct

m = ct.Model("double pendulum")
m.add("upper", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
m.add("lower", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="upper", at=(1.0, 0, 0))

t = np.linspace(0.0, 20.0, 2001)
start = np.radians([-45.0, -30.0])  # the upper rod points up by 45 degrees, the lower one by another 30
runs = [ct.simulate(m, start + shift, until=t[-1], record=t, rtol=1e-10, atol=1e-12) for shift in (0.0, 1e-6)]

poses = ct.poses(m)
one, other = (poses(run.q)[:, -1] @ [1.0, 0.0, 0.0, 1.0] for run in runs)  # the tips: 1 m along the x axis of the lower rod
apart = np.linalg.norm(one - other, axis=1)
parted = t[np.argmax(apart > 0.1)]
print(f"energy: {runs[0].total_energy[0]:.3f} J, and it changes by less than 1e-8: {bool(np.abs(runs[0].energy_change).max() < 1e-8)}")
print(f"the tips are 10 cm apart after {parted:.1f} s")

figure = Figure(figsize=(9.0, 4.6), layout="constrained")
path, distance = figure.subplots(1, 2, width_ratios=(1.1, 1.0))
seen = t <= parted
path.plot(one[seen, 0], one[seen, 2], color="#0072B2", linewidth=0.9)
for k, shade in zip(range(0, 160, 20), np.linspace(0.75, 0.0, 8), strict=True):  # eight pictures of the rods, 0.2 s apart
    joints = np.stack([np.zeros(3), poses(runs[0].q[k])[-1, :3, 3], one[k, :3]])
    path.plot(joints[:, 0], joints[:, 2], "o-", color=str(shade), linewidth=1.8, markersize=4)
path.set(aspect="equal", xlabel="x [m]", ylabel="z [m]")
path.set_title(f"path of the tip for {parted:.1f} s; the rods in the first 1.4 s", fontsize="medium")
distance.semilogy(t, apart, color="#D55E00", linewidth=1.2)
distance.axvline(parted, color="0.6", linestyle="--", linewidth=0.8)
distance.set(xlabel="time [s]", ylabel="distance of the tips [m]", xlim=(0.0, t[-1]))
distance.set_title("two starts, a millionth of a radian apart", fontsize="medium")
distance.grid(alpha=0.3)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "double_pendulum.png", dpi=110)
