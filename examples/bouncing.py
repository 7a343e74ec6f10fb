"""A ball falls on the floor and bounces: an event turns its velocity round, and another notes how high it comes.

Run it with the path of a picture, or it writes bouncing.png to the current folder.
"""

import sys

import numpy as np

import catena as ct

height, kept = 1.0, 0.8  # a bounce keeps 80 % of the velocity
m = ct.Model("ball")
m.add("ball", ct.sphere(0.05, mass=0.1), ct.Prismatic("z"))  # q is the height above the floor

bounce = ct.Event("bounce", lambda t, q, v: q[0], action=lambda t, q, v: (q, -kept * v), direction=-1)
turn = ct.Event("turn", lambda t, q, v: v[0], action="record", direction=-1)
run = ct.simulate(m, [height], until=3.0, events=[bounce, turn])

times = np.array([event.t for event in run.events if event.name == "bounce"])
heights = np.array([event.q[0] for event in run.events if event.name == "turn"])
n = np.arange(len(times))
by_hand = np.sqrt(2.0 * height / 9.81) * (2.0 * np.cumsum(kept**n) - 1.0)
print(f"{len(times)} bounces, the first at {times[0]:.9f} s, the last at {times[-1]:.9f} s")
print(f"by hand they are at {by_hand[0]:.9f} s and {by_hand[-1]:.9f} s; all agree to 1e-9 s: {bool(np.abs(times - by_hand).max() < 1e-9)}")
print(f"heights: {', '.join(f'{x:.4f}' for x in heights)} m")
print(f"by hand: {', '.join(f'{x:.4f}' for x in height * kept ** (2 * (n[: len(heights)] + 1)))} m")

run.plot(sys.argv[1] if len(sys.argv) > 1 else "bouncing.png", what=("q", "v", "energy"))
