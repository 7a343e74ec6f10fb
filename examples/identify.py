"""An arm is identified: a path that excites it, torques with noise, and its base parameters with their standard errors.

The model that the identification begins with is off: a load in the hand, a heavier elbow and the friction of the joints are unknown to it.
Run it with the path of a picture, or it writes identify.png to the current folder.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import catena as ct
from catena.examples import arm

m = arm()
true = m.with_values(
    {"hand.mass": 2.4, "elbow.mass": 3.0, "fore.com": (0.01, -0.02, 0.15)}
    | {f"{name}.damping": 0.2 for name in m.v_names}
    | {f"{name}.friction": 0.3 for name in m.v_names}
)

# a path on which the torques tell the parameters: 10 s long, within 1.2 rad and 2 rad/s
path = ct.excitation(m, 10.0, reach=1.2, max_rate=2.0, joints=["damping", "friction"])
t = np.linspace(0.0, path.duration, 1001)
states = path(t)

# what sensors of 0.1 to 0.3 N m measure along it
rng = np.random.default_rng(0)
noise = np.array([0.3, 0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
tau = ct.inverse_dynamics(true)(*states) + noise * rng.normal(size=(len(t), m.nv))

found = ct.identify(m, "base", *states, tau, joints=["damping", "friction"])
expected = ct.base_parameters(true, joints=["damping", "friction"]).values
errors = np.sqrt(np.diag(found.covariance))
off = (found.estimate - expected) / errors
print(f"condition number of the regressor along the path below 15: {path.condition < 15.0}")
print(f"{len(found.names)} base parameters, {np.count_nonzero(np.abs(off) < 3.0)} within 3 standard errors")
print(f"largest error of the noise {np.abs(found.noise / noise - 1.0).max():.2f} of it")

# the model found gives the torques of another motion
q, v, vdot = ct.polynomial(np.zeros(7), [0.8, 0.6, -0.5, 1.2, 0.4, -0.7, 1.0], duration=1.5)(np.linspace(0.0, 1.5, 200))
torque = ct.inverse_dynamics(true)(q, v, vdot)
for name, model in (("before", m), ("identified", found.model)):
    away = np.sqrt(np.mean((ct.inverse_dynamics(model)(q, v, vdot) - torque) ** 2))
    print(f"torques of another motion, {name}: {away:.3f} N m off")

figure = Figure(figsize=(7.0, 5.4), layout="constrained")
upper, middle, lower = figure.subplots(3, 1, height_ratios=(1, 1, 1.4))
upper.plot(t, states.position, linewidth=1.0)
upper.set(ylabel="positions [rad]", xlim=(0, 10))
middle.plot(t, tau[:, -1], linewidth=0.5)
middle.set(ylabel="hand [N m]", xlabel="time [s]", xlim=(0, 10))
change, at = (found.estimate - found.before) / errors, np.arange(len(errors))
shown = np.arcsinh  # the large changes and the errors in one picture
lower.vlines(at, shown(change - 3.0), shown(change + 3.0), color="tab:cyan", linewidth=3.0, label="identified, 3 standard errors")
lower.plot(at, shown((expected - found.before) / errors), "k.", markersize=3, label="true")
lower.axhline(0.0, color="tab:red", linewidth=0.8, label="model before")
ticks = np.array([-100, -10, 0, 10, 100])
lower.set_yticks(shown(ticks), [str(tick) for tick in ticks])
lower.set(xlabel="base parameters", ylabel="change / error", xlim=(-1, len(at)))
lower.legend(loc="lower right", fontsize="x-small", frameon=False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "identify.png", dpi=120)
