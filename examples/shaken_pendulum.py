"""A pendulum stands upside down while its pivot shakes fast enough, and falls where it does not (Kapitza).

The pivot is driven: its height is a given function of time, and what the shaker has to give is a result.
"""

import numpy as np

import catena as ct

LENGTH, AMPLITUDE = 0.5, 0.05  # [m]
least = np.sqrt(2.0 * 9.81 * LENGTH) / AMPLITUDE  # by theory, of a point mass: (amplitude * frequency)^2 > 2 g length
print(f"upright above {least:.1f} rad/s, by theory")

for frequency in (0.8 * least, 1.5 * least):
    m = ct.Model("shaken pendulum")
    m.add("pivot", ct.point_mass(0.2), ct.Driven(ct.Prismatic("z"), ct.Harmonic(amplitude=AMPLITUDE, frequency=frequency)))
    m.add("arm", ct.point_mass(1.0, at=(0, 0, LENGTH)), ct.Revolute("y", damping=0.01), parent="pivot")
    run = ct.simulate(m, [0.1], until=5.0)
    fell = np.abs(run["arm"]).max() > np.pi / 2
    force = np.abs(run.driving_force).max()
    print(f"{frequency:6.1f} rad/s: {'falls' if fell else 'stays upright'}; the shaker gives up to {force:.0f} N")
