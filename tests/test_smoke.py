"""A mechanism is described, compiled, checked, simulated, saved and loaded: what `make wheel` and `make aarch64` ask of every place."""

import sys
from pathlib import Path

import numpy as np

import catena as ct
from catena.examples import four_bar


def test_rod_and_four_bar(tmp_path: Path) -> None:
    # a thin rod of mass m and length l on a hinge at its end, level and at rest: vdot = (m g l / 2) / (m l^2 / 3)
    m = ct.Model("rod")
    m.add("rod", ct.rod(0.8, mass=2.0), ct.Revolute("y"))
    assert abs(ct.forward_dynamics(m)([0.0], [0.0], [0.0])[0] - 1.5 * 9.81 / 0.8) < 1e-12

    # released, it swings and keeps its energy
    assert np.abs(ct.simulate(m, [0.0], until=2.0).energy_change).max() < 1e-6

    # a loop stays closed, and a file is the model
    bar = four_bar()
    run = ct.simulate(bar, bar.assemble(crank=1.0), until=1.0)
    assert np.abs(run.loop_error).max() < 1e-9
    bar.save(tmp_path / "bar.toml")
    again = ct.load(tmp_path / "bar.toml")
    assert again.q_names == bar.q_names
    assert np.abs(ct.simulate(again, run.q[0], until=1.0).q[-1] - run.q[-1]).max() < 1e-9


if __name__ == "__main__":  # where there is no pytest
    assert Path(ct.__file__).is_relative_to(sys.prefix), f"{ct.__file__} is not what was installed"
    test_rod_and_four_bar(Path.cwd())
    print("catena", ct.__version__, "on Python", sys.version.split()[0], "with NumPy", np.__version__)
