"""A linear policy learns to balance a pole on a cart, by trial and error in 4,096 environments at once.

Each of 128 policies is tried in 32 environments, whose poles have masses of 0.05 to 0.5 kg; the 16 that hold their poles up for longest are
the middle and the spread of the next ones (cross-entropy method). The time goes to the error output. Run it with the path of a picture, or
it writes environment.png to the current folder.
"""

import sys
import time

import numpy as np
from matplotlib.figure import Figure

import catena as ct

policies, trials, best, rounds, steps = 128, 32, 16, 6, 500
task = ct.environments.cart_pole().with_options(parameters={"pole.mass": (0.05, 0.5)})
envs = ct.environments.VectorEnvironment(task, policies * trials)
rng = np.random.default_rng(0)


def held(gains, seed):
    """Return for how many steps policies (n, 4) hold the poles up, in each of their environments, and the angles of the poles."""
    each = np.repeat(gains, envs.num_envs // len(gains), axis=0)
    up, steps_up, angles = np.ones(envs.num_envs, dtype=bool), np.zeros(envs.num_envs), []
    observations, _ = envs.reset(seed=seed)
    for _ in range(steps):
        actions = np.einsum("ni,ni->n", observations, each)[:, None]
        observations, rewards, terminations, *_ = envs.step(actions)
        steps_up += rewards * up
        up &= ~terminations
        angles.append(np.where(up, observations[:, 1], np.nan))
    return steps_up.reshape(len(gains), -1), np.array(angles)


started = time.perf_counter()
middle, spread, learned = np.zeros(4), np.full(4, 3.0), []
for round_ in range(rounds):
    gains = middle + spread * rng.normal(size=(policies, 4))
    returns = held(gains, seed=round_)[0].mean(axis=1)
    chosen = gains[np.argsort(-returns)[:best]]
    middle, spread = chosen.mean(axis=0), chosen.std(axis=0) + 0.05
    learned.append(returns)
    print(f"round {round_ + 1}: {np.mean(returns):5.1f} of {steps} steps on average, {returns.max():5.1f} by the best policy")
took = time.perf_counter() - started
print(f"{rounds * steps * envs.num_envs / took / 1e6:.1f} million steps a second, policies and compiling included", file=sys.stderr)

final, angles = held(middle[None], seed=1000)
print(f"the middle of the last policies holds {np.mean(final == steps):.1%} of {envs.num_envs:,} new poles up for {steps} steps")

figure = Figure(figsize=(9.0, 4.2), layout="constrained")
curve, poles = figure.subplots(1, 2)
curve.plot(range(1, rounds + 1), [np.mean(x) for x in learned], "o-", color="#0072B2", label="mean of all policies")
curve.plot(range(1, rounds + 1), [np.max(x) for x in learned], "o-", color="#D55E00", label="best policy")
curve.set(xlabel="round", ylabel="steps that the pole is up", ylim=(0, 1.05 * steps))
curve.legend(fontsize="small")
poles.plot(task.step * np.arange(1, steps + 1), np.degrees(angles[:, ::41]), color="#0072B2", alpha=0.15, linewidth=0.8)
poles.set(xlabel="time [s]", ylabel="pole [degrees]", xlim=(0, 4))
for axes in (curve, poles):
    axes.grid(alpha=0.3)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "environment.png", dpi=100)
