"""Two spinning bodies: a heavy top that precesses and nutates, and a box that flips about its middle axis.

Both are compared with theory: the top turns back at the roots of a cubic, the box flips in a time given by an elliptic integral. Run it
with the path of a picture, or it writes top.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from scipy.special import ellipk

import catena as ct

figure = Figure(figsize=(9.0, 6.6), layout="constrained")
panels = figure.subplot_mosaic([["let go", "pushed along", "pushed against"], ["box"] * 3], height_ratios=(1.4, 1.0))

# A heavy top with its tip in a ball joint. Tilted by 30 degrees it is let go, pushed along its precession, or pushed against it.
m = ct.Model("top")
m.add("top", ct.cylinder(0.03, 0.05, mass=0.2, com=(0, 0, 0.06)), ct.Spherical())
I1, _, I3 = np.diag(ct.mass_matrix(m)(m.neutral()))
spin, tilt = 120.0, np.radians(30.0)
u, s = np.cos(tilt), np.sin(tilt)

for title, push in {"let go": 0.0, "pushed along": 6.0, "pushed against": -3.0}.items():
    q0, v0 = m.integrate(m.neutral(), [tilt, 0.0, 0.0]), [0.0, push * s, spin]  # v: in the axes of the top
    run = ct.simulate(m, q0, v0, until=1.5, record=np.linspace(0.0, 1.5, 1501))
    axis = ct.poses(m)(run.q)[:, 0, :3, 2]  # where the top points

    # the cosine of the tilt moves between roots of (1 - u^2) (energy - pull u) - (momentum - a u)^2
    a, pull = I3 * spin / I1, 2.0 * 0.2 * 9.81 * 0.06 / I1
    energy, momentum = (push * s) ** 2 + pull * u, push * s**2 + a * u
    cubic = np.polysub(np.polymul([-1.0, 0.0, 1.0], [-pull, energy]), np.polymul([-a, momentum], [-a, momentum]))
    lowest, highest, _ = np.sort(np.roots(cubic).real)
    seen, theory = (np.degrees(np.arccos(pair)) for pair in ([axis[:, 2].max(), axis[:, 2].min()], [highest, lowest]))
    print(f"{title:14} tilts between {seen[0]:.2f} and {seen[1]:.2f} degrees; theory: {theory[0]:.2f} and {theory[1]:.2f}")

    panel = panels[title]
    for angle in np.radians(theory):
        panel.add_patch(Circle((0.0, 0.0), np.sin(angle), fill=False, color="0.5", linestyle="--", linewidth=0.8))
    panel.plot(axis[:, 0], axis[:, 1], color="#0072B2", linewidth=1.1)
    panel.plot(*axis[0, :2], "o", color="#D55E00", markersize=5)
    panel.plot(0.0, 0.0, "+", color="0.4")
    panel.set(aspect="equal", xticks=[], yticks=[])
    panel.set_title(f"{title}: {seen[0]:.1f}° to {seen[1]:.1f}°", fontsize="medium")
panels["let go"].set_ylabel("top seen from above;\ndashed: the limits by theory")

# A box in free flight, turning about its middle axis but for a hundredth: it flips, again and again.
box = ct.Model("box", gravity=(0, 0, 0))
box.add("box", ct.box(0.3, 0.2, 0.05, mass=1.0), ct.Free())
flip = ct.Event("flip", lambda t, q, v: v[1], action="record")
run = ct.simulate(box, box.neutral(), [0.05, 5.0, 0.0, 0, 0, 0], until=20.0, events=[flip])

I1, I2, I3 = np.diag(ct.mass_matrix(box)(box.neutral()))[:3]  # from the smallest to the largest
twice_energy, momentum2 = I1 * 0.05**2 + I2 * 5.0**2, (I1 * 0.05) ** 2 + (I2 * 5.0) ** 2
if momentum2 < twice_energy * I2:
    I1, I3 = I3, I1
slow = (I3 - I2) * (momentum2 - twice_energy * I1)
modulus = (I2 - I1) * (twice_energy * I3 - momentum2) / slow
between = 2.0 * ellipk(modulus) * np.sqrt(I1 * I2 * I3 / slow)
times = np.array([event.t for event in run.events])
print(f"the box flips {len(times)} times, {np.diff(times).mean():.6f} s apart; theory: {between:.6f} s")

for i, (name, colour) in enumerate({"x, smallest moment": "#009E73", "y, middle": "#0072B2", "z, largest": "#D55E00"}.items()):
    panels["box"].plot(run.t, run.v[:, i], color=colour, linewidth=1.2, label=name)
panels["box"].set(xlabel="time [s]", ylabel="angular velocity [rad/s]", xlim=(0.0, 20.0))
panels["box"].set_title(f"a box flips about its middle axis every {between:.2f} s", fontsize="medium")
panels["box"].legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=3, frameon=False)
panels["box"].grid(alpha=0.3)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "top.png", dpi=110)
