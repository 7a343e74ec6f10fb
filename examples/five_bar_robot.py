"""The five-bar robot of Saha and Schiehlen, section VI.B: along a path, falling freely, under torques over time, and under control.

The tip hangs below the elbows or stands above them. Where the outer bars come into line, the motors lose their hold, and equations in the
angles of the motors end; catena goes on with other coordinates. Run it with the path of a picture, or it writes five_bar_robot.png to the
current folder.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import catena as ct
from catena.examples import ACTUATED, five_bar_robot

m = five_bar_robot()
motors = ACTUATED["five-bar-robot"]
legs = ct.reduced(m, motors)
places = [m.q_names.index(motor) for motor in motors]
guesses = {"below": (-1.5, 3.0), "above": (-0.3, 1.4)}  # the outer angles


def place(side, first, second):
    """Return the positions with the tip on a side, and the motors at two angles [degrees]."""
    first, second = np.radians([first, second])
    outer = guesses[side]
    return m.assemble([first, outer[0], second, outer[1]], fixed=dict(zip(motors, (first, second), strict=True)))


# free: released from rest, up to where the outer bars are in line, and beyond
line = ct.Event("in line", lambda t, q, v: np.sin(q[0] + q[1] - q[2] - q[3]), action="record")
free = {}
for side in guesses:
    run = free[side] = ct.simulate(m, place(side, 80.0, 70.0), until=1.6, events=[line], record=np.linspace(0.0, 1.6, 321))
    print(f"free, tip {side}: outer bars in line after {run.events[0].t:.3f} s, where the run goes on; loop closed to 1e-12 m:",
          bool(ct.loop_error(m)(run.q).max() < 1e-12))  # fmt: skip

# along the path, and forced by the torques that it takes, without and with feedback
path = ct.cycloidal(np.radians([30.0, 30.0]), np.radians([90.0, 70.3]), duration=20.0)
t = np.linspace(0.0, 20.0, 1001)  # every 0.02 s
inverse = ct.inverse_dynamics(m, actuated=motors)


def off(t, q, v):
    """Return how far the motors are from the path, beyond a degree."""
    first, second = q[places] - path(t).position
    return ct.maximum(abs(first), abs(second)) - np.radians(1.0)


moved, forces, forced, controlled = {}, {}, {}, {}
for side in guesses:
    start = place(side, 30.0, 30.0)
    q = moved[side] = legs.positions(path(t).position, guess=start)
    v = legs.rates(q, path(t).rate)
    forces[side] = inverse(q, v, legs.accelerations(q, v, path(t).acceleration))
    print(f"torques at 0, 10 and 20 s, tip {side}:", ", ".join(f"{x[0]:.3f} and {x[2]:.3f}" for x in forces[side][::500]), "N m")
    leaves = ct.Event("off", off, action="record")
    forced[side] = ct.simulate(m, start, until=6.0, tau=(t, forces[side]), events=[leaves])
    print(f"forced, tip {side}: off the path by a degree after {forced[side].events[0].t:.2f} s")
    run = controlled[side] = ct.simulate(m, start, until=20.0, controller=ct.computed_torque(m, path, motors, bandwidth=1.0))
    most = np.abs(run.q[:, places] - path(run.t).position).max()
    print(f"controlled, tip {side}: off the path by less than 1e-8 rad: {bool(most < 1e-8)}")

blue, red, green = "#0072B2", "#D55E00", "#009E73"
figure = Figure(figsize=(11.0, 6.2), layout="constrained")
((shape, angles, torques), (falling, first, second)) = figure.subplots(2, 3)
poses = ct.poses(m)
for k, shade in ((0, 0.7), (500, 0.4), (1000, 0.0)):
    frames = poses(moved["below"][k])
    tip = frames[1] @ [1.1, 0.0, 0.0, 1.0]
    bars = np.stack([frames[0, :, 3], frames[1, :, 3], tip, frames[3, :, 3], frames[2, :, 3]])
    shape.plot(bars[:, 0], bars[:, 2], "o-", color=str(shade), linewidth=1.8, markersize=4)
shape.set(aspect="equal", xlabel="x [m]", ylabel="z [m]")
shape.set_title("at 0, 10 and 20 s, the last black", fontsize="medium")
for i, (name, style) in enumerate((("1", "-"), ("2", "--"))):
    for k, color in ((0, blue), (1, red)):
        angles.plot(t, moved["below"][:, 2 * i + k], color=color, linestyle=style, linewidth=1.2, label=f"leg {name}, joint {k + 1}")
    torques.plot(t, forces["below"][:, places[i]], color=blue, linestyle=style, linewidth=1.2, label=f"leg {name}")
    falling.plot(free["below"].t, free["below"].q[:, places[i]], color=blue, linestyle=style, linewidth=1.2, label=f"leg {name}")
falling.axvline(free["below"].events[0].t, color="0.6", linewidth=0.8, label="outer bars in line")
for axes, leg in ((first, 0), (second, 1)):
    axes.plot(t, path(t).position[:, leg], color="0.7", linewidth=4.0, label="path")
    axes.plot(controlled["below"].t, controlled["below"].q[:, places[leg]], color=green, linewidth=1.2, label="computed torque")
    axes.plot(forced["below"].t, forced["below"].q[:, places[leg]], color=red, linewidth=1.0, label="torques over time")
    axes.set(xlim=(0.0, 10.0), ylim=(-1.0, 2.0))
for axes, title in (
    (angles, "joint angles [rad]"),
    (torques, "torques [N m]"),
    (falling, "free: angles of the motors [rad]"),
    (first, "forced: leg 1 [rad]"),
    (second, "forced: leg 2 [rad]"),
):
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("time [s]", fontsize="small")
    axes.grid(alpha=0.3)
    if axes is not angles:
        axes.legend(fontsize="small")
angles.set_ylim(-2.5, 7.5)
angles.legend(fontsize="small", ncols=2, loc="upper center")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "five_bar_robot.png", dpi=100)
