"""A pole on a cart is brought upright and to a place: the same control law, compiled and called from Python.

The law is a linear-quadratic regulator for the cart-pole of the examples. catena traces it and compiles it with the mechanism; marked with
`ct.python`, it is called at every step instead, which is slower, but may do anything that Python can. The times go to the error output. Run
it with the path of a picture, or it writes control.png to the current folder.
"""

import sys

import numpy as np
from scipy.linalg import solve_continuous_are

import catena as ct
from catena.examples import cart_pole

m = cart_pole()

# d/dt (q, v) = A (q, v) + B force, about the upright pole
A, B = ct.linearize(m, np.zeros(2), actuated=["cart"])
gains = (B.T @ solve_continuous_are(A, B, np.diag([1.0, 1.0, 0.1, 0.1]), [[0.01]]) / 0.01)[0]
print(f"force on the cart = {', '.join(f'{-k:.1f}' for k in gains)} times (cart, pole, their rates), within 15 N")


def law(t, q, v):
    """Return the joint forces: a force on the cart, which the motor limits, and no torque in the hinge."""
    force = -(gains[0] * q[0] + gains[1] * q[1] + gains[2] * v[0] + gains[3] * v[1])
    return np.stack([ct.maximum(-15.0, ct.minimum(15.0, force)), 0.0 * force])


def law_in_python(t, q, v):
    """Return the same, with an `if`, which only Python can follow."""
    force = -float(gains @ np.concatenate([q, v]))
    if abs(force) > 15.0:
        force = 15.0 if force > 0.0 else -15.0
    return np.array([force, 0.0])


start = np.array([0.5, np.radians(25.0)])
runs = [ct.simulate(m, start, until=5.0, step=0.002, controller=controller) for controller in (law, ct.python(law_in_python))]
for name, run in zip(("compiled", "called from Python"), runs, strict=True):
    cart, pole = run["cart"], np.degrees(run["pole"])
    print(f"{name:18} cart from {cart[0]:.2f} to {cart[-1]:.4f} m, pole from {pole[0]:.1f} to {pole[-1]:.4f} degrees")
    print(f"{name:18} {run.info['steps']:,} steps in {run.info['seconds']:.3f} s, with compiling", file=sys.stderr)
print(f"largest difference of the two below 1e-9: {bool(np.abs(runs[0].q - runs[1].q).max() < 1e-9)}")

runs[0].plot(sys.argv[1] if len(sys.argv) > 1 else "control.png", what=("q", "tau"))
