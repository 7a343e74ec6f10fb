"""A four-bar is held upright by the motor of its crank, where it would fall: an equilibrium, its linearisation and a regulator.

`ct.equilibrium` finds where the mechanism rests upright and says that it is unstable there; `ct.linearize` gives the linear system of the
independent coordinate, the crank; SciPy's Riccati solver gives the gains. Run it with the path of a picture, or it writes upright.png to
the current folder.
"""

import sys

import numpy as np
from scipy.linalg import solve_continuous_are

import catena as ct
from catena.examples import four_bar

m = four_bar()
hanging = ct.equilibrium(m)
up = ct.equilibrium(m, m.assemble(crank=hanging.q[0] + 2.8, guess=hanging.q))
for name, rest in (("hanging", hanging), ("upright", up)):
    print(f"{name}: crank at {np.degrees(rest.q[0]):6.1f} degrees, {rest.stability}, eigenvalues {np.round(rest.eigenvalues, 2)}")
print(ct.modes(m, hanging.q))

A, B = ct.linearize(m, up.q, actuated=["crank"])
gains = (B.T @ solve_continuous_are(A, B, np.diag([10.0, 1.0]), [[0.1]]) / 0.1)[0]
print(f"torque on the crank = {-gains[0]:.1f} times its angle {-gains[1]:+.1f} times its rate")


def law(t, q, v):
    """Return the joint forces: a torque on the crank, within 25 N m."""
    torque = -(gains[0] * (q[0] - up.q[0]) + gains[1] * v[0])
    return [ct.maximum(-25.0, ct.minimum(25.0, torque)), 0.0, 0.0]


start = m.assemble(crank=up.q[0] + 0.3, guess=up.q)
held, falls = ct.simulate(m, start, until=3.0, controller=law), ct.simulate(m, start, until=3.0)
away = [np.degrees(abs(run["crank"][-1] - up.q[0])) for run in (held, falls)]
print(f"after 3 s the crank is {away[0]:.3f} degrees away with the regulator, {away[1]:.0f} without")
held.draw(sys.argv[1] if len(sys.argv) > 1 else "upright.png", [0.0, 0.1, 0.3, 3.0], size=(400, 420))
