"""Robots that other people wrote, against Pinocchio and MuJoCo: forward and inverse dynamics at random states.

URDF files come from the package example-robot-data (400 MB, and so not part of the tests), MJCF files from a folder of MuJoCo Menagerie:

    pip install example-robot-data
    python benchmarks/robots.py [FOLDER]

All must agree to 1e-10, relative to the largest entry of each state; and Cassie's loops must stay closed to 1e-10 in a run.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio

import catena as ct

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.file_peers import MuJoCo, Pinocchio

STATES, TOLERANCE = 64, 1e-10

URDF = {
    "Panda": "panda_description/urdf/panda.urdf",
    "UR5": "ur_description/urdf/ur5_robot.urdf",
    "Talos": "talos_data/robots/talos_reduced.urdf",
    "Talos, all joints": "talos_data/robots/talos_full_v2.urdf",
    "ANYmal B": "anymal_b_simple_description/robots/anymal.urdf",
    "ANYmal C": "anymal_c_simple_description/urdf/anymal.urdf",
    "Solo": "solo_description/robots/solo.urdf",
    "Solo 12": "solo_description/robots/solo12.urdf",
}
MJCF = {
    "iiwa 14": "kuka_iiwa_14/iiwa14.xml",
    "Allegro hand": "wonik_allegro/right_hand.xml",
    "Cassie, loops open": "agility_cassie/cassie.xml",
}


def differences(m: ct.Model, peer: Any) -> tuple[float, float]:
    """Return by how much inverse and forward dynamics differ from those of a peer."""
    rng = np.random.default_rng(0)
    q, v, x = m.random(rng, STATES), rng.normal(size=(STATES, m.nv)), rng.normal(size=(STATES, m.nv))
    found = []
    for kernel, theirs in ((ct.inverse_dynamics(m), peer.inverse), (ct.forward_dynamics(m), peer.forward)):
        expected = np.array([theirs(*state) for state in zip(q, v, x, strict=True)])
        found.append(float((np.abs(kernel(q, v, x) - expected).max(axis=-1) / np.abs(expected).max(axis=-1)).max()))
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="the folder of MJCF files")
    menagerie = parser.parse_args().folder
    warnings.simplefilter("ignore", ct.InertiaWarning)
    print(f"{'robot':28} {'bodies':>6} {'nv':>4} {'inverse':>9} {'forward':>9}")
    worst = 0.0
    robots = Path(pinocchio.__file__).parents[4] / "share" / "example-robot-data" / "robots"  # where both packages are installed
    models: list[tuple[str, ct.Model, Any]] = []
    for name, path in URDF.items() if robots.is_dir() else ():
        for floating in (False, True):
            m = ct.load(robots / path, floating_base=floating, ignore="mimic")
            models.append((f"{name}{', free' if floating else ''}", m, Pinocchio(robots / path, m, floating)))
    for name, path in MJCF.items() if menagerie else ():
        m = ct.load(menagerie / path, ignore=("contact", "actuator", "equality", "frictionloss"))
        models.append((name, m, MuJoCo(menagerie / path, m)))
    for name, m, peer in models:
        inverse, forward = differences(m, peer)
        worst = max(worst, inverse, forward)
        print(f"{name:28} {len(m.links):6} {m.nv:4} {inverse:9.1e} {forward:9.1e}")
    if menagerie:
        m = ct.load(menagerie / "agility_cassie/cassie.xml", ignore="contact")
        run = ct.simulate(m, m.assemble(m.keyframes["home"]), until=1.0)
        opened = float(ct.loop_error(m)(run.q).max())
        worst = max(worst, opened)
        print(f"Cassie, {len(m.loops)} loops closed, falls for 1 s in {run.info['steps']:,} steps: open by {opened:.1e} m at most")
    if worst > TOLERANCE:
        sys.exit(f"not all agree to {TOLERANCE:g}")


if __name__ == "__main__":
    main()
