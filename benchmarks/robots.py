"""Robots that other people wrote, against Pinocchio and MuJoCo: forward and inverse dynamics at random states.

URDF files come from the package example-robot-data (400 MB, so not part of the tests), MJCF files from a folder of MuJoCo Menagerie:

    pip install example-robot-data
    python benchmarks/robots.py [FOLDER OF MJCF FILES]

Relative to the largest entry of each state, all must agree to 1e-10; the script ends with an error if one does not.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pinocchio

import catena as ct

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


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest entry of each state."""
    return float((np.abs(ours - theirs).max(axis=-1) / np.abs(theirs).max(axis=-1)).max())


def passive(m: ct.Model, v: np.ndarray) -> np.ndarray:
    """Damping and friction, which Pinocchio's dynamics leave to the user."""
    damping, friction = (np.concatenate([getattr(link.joint, option) for link in m.links]) for option in ("damping", "friction"))
    return -damping * v - friction * v / np.sqrt(v**2 + m.friction_speed**2)


def against_pinocchio(file: Path, floating: bool) -> tuple[ct.Model, float, float]:
    """Return the model of a file, and by how much inverse and forward dynamics differ from Pinocchio's."""
    m = ct.load(file, floating_base=floating, ignore="mimic")
    theirs = pinocchio.buildModelFromUrdf(str(file), *([pinocchio.JointModelFreeFlyer()] if floating else []))
    data = theirs.createData()
    joints = [(joint.get("name"), joint.find("child")) for joint in ElementTree.parse(file).getroot().iter("joint")]
    carried = {name: child.get("link") for name, child in joints if child is not None}
    rng = np.random.default_rng(0)
    q, v, x = m.random(rng, STATES), rng.normal(size=(STATES, m.nv)), rng.normal(size=(STATES, m.nv))
    position, columns = np.zeros((STATES, theirs.nq)), np.zeros(theirs.nv, dtype=int)
    for name, joint in zip(theirs.names[1:], list(theirs.joints)[1:], strict=True):
        if joint.nq == 7:
            position[:, joint.idx_q : joint.idx_q + 7] = q[:, [0, 1, 2, 4, 5, 6, 3]]
            columns[joint.idx_v : joint.idx_v + 6] = [3, 4, 5, 0, 1, 2]
            continue
        own = q[:, m.q_names.index(carried[name])]
        position[:, joint.idx_q : joint.idx_q + joint.nq] = np.stack([own] if joint.nq == 1 else [np.cos(own), np.sin(own)], axis=-1)
        columns[joint.idx_v] = m.v_names.index(carried[name])
    tau, vdot = np.zeros((STATES, m.nv)), np.zeros((STATES, m.nv))
    force = passive(m, v)
    for i in range(STATES):
        tau[i, columns] = pinocchio.rnea(theirs, data, position[i], v[i, columns], x[i, columns])
        vdot[i, columns] = pinocchio.aba(theirs, data, position[i], v[i, columns], (x + force)[i, columns])
    return m, relative(ct.inverse_dynamics(m)(q, v, x), tau - force), relative(ct.forward_dynamics(m)(q, v, x), vdot)


def main() -> None:
    warnings.simplefilter("ignore", ct.InertiaWarning)
    rows: list[tuple[str, Any]] = []
    folder = Path(pinocchio.__file__).parents[4] / "share" / "example-robot-data" / "robots"  # where both packages are installed
    if not folder.is_dir():
        print("the package example-robot-data is not installed; the URDF files are left out")
    else:
        for name, path in URDF.items():
            for floating in (False, True):
                rows.append((f"{name}{', free' if floating else ''}", against_pinocchio(folder / path, floating)))
    print(f"{'robot':28} {'bodies':>6} {'nv':>4} {'inverse':>9} {'forward':>9}")
    for name, (m, inverse, forward) in rows:
        print(f"{name:28} {len(m.links):6} {m.nv:4} {inverse:9.1e} {forward:9.1e}")
    if any(max(inverse, forward) > TOLERANCE for _, (_, inverse, forward) in rows):
        sys.exit(f"not all agree to {TOLERANCE:g}")


if __name__ == "__main__":
    main()
