"""Every robot of a folder on the ground: loaded, held at its posture by springs and dampers, simulated, measured, drawn and timed.

    python benchmarks/shelf.py FOLDER [--seconds 2] [--only PART] [--free NAMES] [--drop 0] [--pictures FOLDER] [--markdown FILE] [--mujoco]

The folder is searched for URDF, MJCF and TOML files. Contact is that of `ct.load(file, contact="ground")`; what catena cannot represent is
left out. The posture is the home of the file, the state "standing", "half_sitting" or "home" of an SRDF file beside a URDF file, or the
neutral one within the limits of the joints. An SRDF state with a position of the root, or `--free`, gives a URDF robot a free base.

A robot with a free base is released where it touches the ground, or `--drop` metres above it. Under one with a fixed base that would
begin in the ground, the ground is lowered to a centimetre below it. The joints that have actuators, or all joints where the file names
none, are held by springs and dampers, a PD controller with constant set-points. No force adds energy, so that it must not rise.

`--mujoco` runs MJCF files in MuJoCo, too, from the same positions and with the same springs and dampers, and with loops that are as firm as
its steps allow.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import results
from rich.console import Console
from rich.table import Table

import catena as ct

#: The step of a run [s]; a run that fails with it is tried with the next.
STEPS = (1e-3, 2e-4, 4e-5)

#: How far below a robot with a fixed base the ground is lowered [m].
MARGIN = 0.01

#: The spring of a hinge has so many times the weight of the robot times its size, that of a slide a hundred times the weight over the size;
#: a damper has the stiffness of its spring times so many seconds.
FIRMNESS, SETTLING = 10.0, 0.05

#: The speed below which a robot is at rest [m/s, rad/s]: friction creeps at a slip speed of 1 mm/s.
RESTING = 1e-2

#: The states of SRDF files that are taken, the first ones before the others.
STATES = ("standing", "half_sitting", "home")

#: A robot fell whose base sank by this part of its height, or tilted by this angle [degrees].
SUNK, TILTED = 1.0 / 3.0, 45.0

COLUMNS = (
    "robot", "base", "coordinates", "loops", "contact points", "step, ms", "height at the start, m", "at the end, m", "tilted by, degrees",
    "fastest at the end, m/s or rad/s", "energy", "at the end", "load, s", "first step, s", "times real time",
)  # fmt: skip


class Robot(NamedTuple):
    """A robot on the ground: where it begins, whether it has a free base, and what is said of its contact."""

    model: ct.Model
    q: np.ndarray
    free: bool
    remark: str


def files(folder: Path) -> list[Path]:
    """Return the model files of a folder, in order."""
    marks = {".urdf": "<robot", ".xml": "<mujoco", ".toml": "[model]"}
    found = (path for path in folder.rglob("*") if path.suffix in marks and path.is_file())
    return sorted(path for path in found if marks[path.suffix] in path.read_text(errors="replace"))


def srdf_states(path: Path) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Yield the states of the SRDF files beside a URDF file: their names, and the positions of joints."""
    for folder in (path.parent, path.parent.parent / "srdf"):
        for file in sorted(folder.glob("*.srdf")):
            for state in ElementTree.parse(file).getroot().iter("group_state"):
                joints = {joint.get("name", ""): [float(x) for x in joint.get("value", "").split()] for joint in state.iter("joint")}
                yield state.get("name", ""), joints


def posture(path: Path, m: ct.Model) -> tuple[np.ndarray, bool]:
    """Return where a robot begins, and whether a state beside its file says that its base is free."""
    q, free = m.search_start(), False
    known = {name: body for body, name in m.joint_names.items()}
    ranked: list[tuple[int, int, dict[str, list[float]]]] = []
    for name, joints in srdf_states(path) if path.suffix == ".urdf" else ():
        of_robot = [joint for joint in joints if joint != "root_joint"]
        if name in STATES and of_robot and sum(joint in known for joint in of_robot) >= 0.9 * len(of_robot):
            ranked.append((-len(of_robot), STATES.index(name), joints))
    if ranked:
        joints = min(ranked, key=lambda one: one[:2])[2]
        free = len(joints.get("root_joint", ())) == 7
        at = {link.name: at_q for link, at_q, _ in m.slices()}
        for joint, value in joints.items():
            if joint in known and at[known[joint]].stop - at[known[joint]].start == len(value):
                q[at[known[joint]]] = value
    return m.assemble(q), free


def loaded(path: Path, free: bool) -> tuple[ct.Model, str]:
    """Return a robot with contact, or without it and why."""
    options: dict[str, Any] = {} if path.suffix == ".toml" else {"ignore": "unsupported", "floating_base": free}
    if path.suffix == ".toml":
        return ct.load(path), ""
    try:
        return ct.load(path, contact="ground", **options), ""
    except ct.ModelFileError:
        m = ct.load(path, **options)  # whose error says what is wrong with the file
    return m, "no shapes that touch"


def lowest(m: ct.Model, q: np.ndarray) -> dict[str, float]:
    """Return how high the lowest point of every contact is above its plane."""
    poses, gaps = ct.poses(m)(q), {}
    for contact in (contact for contact in m.contacts if contact.against == "ground"):
        pose, n = poses[m.body_names.index(contact.body)], np.array(contact.normal)
        down = pose[:3, :3].T @ n
        depths = [down @ centre - radius for centre, radius in contact.spheres()]
        depths += [down @ centre - np.sqrt(down @ E @ down) for centre, E in contact.ellipsoids()]
        gaps[contact.name] = float(n @ pose[:3, 3] + min(depths) - contact.height)
    return gaps


def placed(m: ct.Model, q: np.ndarray, drop: float) -> tuple[ct.Model, np.ndarray, str]:
    """Return a robot above the ground: free bodies so much above it, and the ground below what is fixed."""
    gaps, remark = lowest(m, q), ""
    body_of = {contact.name: contact.body for contact in m.contacts}
    parent = {link.name: link.parent for link in m.links}
    moving: dict[str, list[float]] = {}
    for name, gap in gaps.items():
        root = body_of[name]
        while parent[root] != "ground":
            root = parent[root]
        moving.setdefault(root, []).append(gap)
    q, low = q.copy(), []
    for link, at_q, _ in m.slices():
        if link.name not in moving:
            continue
        if isinstance(link.joint, ct.Free):
            q[at_q][:3] += link.at.R.T @ [0.0, 0.0, drop - min(moving[link.name])]
        else:
            low += moving[link.name]
    if low and min(low) < 0.0:
        fall = MARGIN - min(low)
        m = m.with_values({f"{contact.name}.height": contact.height - fall for contact in m.contacts if contact.against == "ground"})
        remark = f"ground lowered by {fall:.2f} m"
    return m, q, remark


def held(m: ct.Model, q: np.ndarray) -> ct.Model:
    """Return a robot whose joints are held at a posture by springs and dampers."""
    places = ct.poses(m)(q)[:, :3, 3]
    size = max(float(np.ptp(places, axis=0).max()), 0.1)
    weight = 9.81 * sum(link.body.mass for link in m.links)
    driven = {coordinate for actuator in m.actuators for coordinate, _ in actuator.coefficients}
    known, values = m.parameters(), {}
    for link, at_q, _ in m.slices():
        if link.joint.nq != 1 or f"{link.name}.stiffness" not in known or (driven and link.name not in driven):
            continue
        stiffness = FIRMNESS * weight * (size if isinstance(link.joint, ct.Revolute) else 10.0 / size)
        damping = max(SETTLING * stiffness, float(known[f"{link.name}.damping"].value))
        values |= {f"{link.name}.stiffness": stiffness, f"{link.name}.damping": damping, f"{link.name}.rest": float(q[at_q][0])}
    return m.with_values(values)


def ready(path: Path, given: argparse.Namespace, aside: bool = False) -> Robot:
    """Return a robot at its posture on the ground, or beside a posture that is singular."""
    urdf = path.suffix == ".urdf"
    free = urdf and path.stem in given.free
    m, why = loaded(path, free)
    q, stands = posture(path, m)
    if urdf and stands and not free:
        m, why = loaded(path, True)
        q, free = posture(path, m)[0], True
    if aside:
        q = m.assemble(m.integrate(q, np.random.default_rng(0).uniform(-0.3, 0.3, m.nv)))
        why = f"{why}; " * bool(why) + "begun beside its posture, which is singular"
    m, q, remark = placed(m, q, given.drop)
    return Robot(held(m, q), q, any(isinstance(link.joint, ct.Free) for link in m.links), why or remark)


def run_of(robot: Robot, seconds: float) -> tuple[ct.Trajectory, float, float, float]:
    """Return the motion of a robot, its step, the time of the first step and the ratio to real time."""
    for step in STEPS:
        try:
            started = time.perf_counter()
            ct.simulate(robot.model, robot.q, until=step, step=step, show_progress=False)
            first, started = time.perf_counter() - started, time.perf_counter()
            run = ct.simulate(robot.model, robot.q, until=seconds, step=step, show_progress=False)
            return run, step, first, seconds / (time.perf_counter() - started)
        except ct.SimulationError:
            if step == STEPS[-1]:
                raise
    raise AssertionError


def judged(robot: Robot, run: ct.Trajectory) -> tuple[str, ...]:
    """Return what came of a robot: heights, tilt, speed, energy, and a word for it."""
    m, speed = robot.model, float(np.abs(run.v[-1]).max(initial=0.0))
    kinetic, potential = ct.energy(m)(run.q, run.v)
    rise, exchanged = max(float(np.diff(kinetic + potential).max()), 0.0), float(np.ptp(kinetic) + np.ptp(potential))
    rounding = 1e-9 * sum(link.body.mass for link in m.links)  # 0.1 nm of its height
    kept = "only lost" if rise <= 1e-6 * exchanged + rounding else f"rose by {rise:.1g} J of {exchanged:.2g} J"
    word = "at rest" if speed < RESTING else "moving"
    if not robot.free:
        return "", "", "", f"{speed:.1g}", kept, word
    base = next(link.name for link in m.links if isinstance(link.joint, ct.Free))
    begun, ended = (ct.poses(m)(q)[m.body_names.index(base)] for q in (run.q[0], run.q[-1]))
    ground = min((contact.height for contact in m.contacts), default=0.0)
    start, end = float(begun[2, 3]) - ground, float(ended[2, 3]) - ground
    turned = tilt(begun[:3, :3], ended[:3, :3])
    if not m.contacts:
        word = "falls freely"
    elif end < (1.0 - SUNK) * start or turned > TILTED:
        word = f"fell, {word}"
    return f"{start:.3f}", f"{end:.3f}", f"{turned:.1f}", f"{speed:.1g}", kept, word


def in_mujoco(path: Path, robot: Robot, seconds: float) -> str:
    """Return where MuJoCo has the base of a robot in the end, and how fast the robot is."""
    import mujoco

    m, theirs = robot.model, mujoco.MjModel.from_xml_path(str(path))
    theirs.opt.timestep, theirs.opt.cone, theirs.opt.impratio = STEPS[1], mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    theirs.eq_solref[:] = 2.0 * STEPS[1], 1.0  # loops as firm as its steps allow, for catena's do not give way
    if not any(theirs.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
        return "there is no ground"
    data, poses = mujoco.MjData(theirs), ct.poses(m)(robot.q)
    moved = [(link, robot.q[at_q]) for link, at_q, _ in m.slices() if link.joint.nq]  # in the order of MuJoCo's joints
    for i, (link, q) in enumerate(moved):
        at, dof, joint = theirs.jnt_qposadr[i], theirs.jnt_dofadr[i], link.joint
        if isinstance(joint, ct.Free):
            pose = poses[m.body_names.index(link.name)]
            data.qpos[at : at + 3] = pose[:3, 3]
            mujoco.mju_mat2Quat(data.qpos[at + 3 : at + 7], pose[:3, :3].ravel())
        elif len(q) == 4:
            data.qpos[at : at + 4] = q
        else:
            data.qpos[at] = q[0] + theirs.qpos0[at]
            theirs.jnt_stiffness[i], theirs.dof_damping[dof] = joint.stiffness[0], joint.damping[0]
            theirs.qpos_spring[at] = (joint.rest[0] if joint.stiffness[0] else 0.0) + theirs.qpos0[at]
    base = data.body(next(link.name for link in m.links if isinstance(link.joint, ct.Free)))
    mujoco.mj_forward(theirs, data)
    begun = base.xmat.reshape(3, 3).copy()
    while data.time < seconds:
        mujoco.mj_step(theirs, data)
    ground = min((contact.height for contact in m.contacts), default=0.0)
    turned = tilt(begun, base.xmat.reshape(3, 3))
    return f"{base.xpos[2] - ground:.3f} m high at the end, tilted by {turned:.1f} degrees, {np.abs(data.qvel).max():.1g} m/s or rad/s"


def tilt(begun: np.ndarray, ended: np.ndarray) -> float:
    """Return by how many degrees the vertical of a body turned, of its rotations at two times."""
    return float(np.degrees(np.arccos(np.clip((begun @ ended.T)[2, 2], -1.0, 1.0))))


def row(path: Path, folder: Path, given: argparse.Namespace) -> tuple[str, ...]:
    """Return the row of a robot: what came of it, or why nothing did."""
    name = str(path.relative_to(folder))
    started = time.perf_counter()
    try:
        robot = ready(path, given)
        taken = time.perf_counter() - started
        try:
            run, step, first, factor = run_of(robot, given.seconds)
        except ct.SimulationError:
            if not robot.model.has_loops:
                raise
            robot = ready(path, given, aside=True)
            run, step, first, factor = run_of(robot, given.seconds)
    except ct.CatenaError as error:
        said = str(error).replace(f"{path}:", "line ").replace(str(path), name).partition(";")[0]
        return (name, *[""] * 10, said, "", "", "")
    m = robot.model
    if given.pictures is not None:
        run.draw(given.pictures / f"{name.replace('/', '-')}.png", np.linspace(0.0, given.seconds, 3), size=(480, 480))
    points = sum(len(contact.spheres()) + len(contact.ellipsoids()) for contact in m.contacts)
    *figures, word = judged(robot, run)
    kind = ("free" if robot.free else "fixed", str(m.nv), str(len(m.loops) + len(m.couplings) or ""), str(points or ""), f"{1e3 * step:g}")
    times = (f"{taken:.1f}", f"{first:.1f}", f"{factor:.2g}" if factor < 10.0 else f"{factor:.0f}")
    return (name, *kind, *figures, f"{word} ({robot.remark})" if robot.remark else word, *times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of robots")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a robot moves")
    parser.add_argument("--only", default="", help="files with this in their path")
    parser.add_argument("--free", type=lambda text: tuple(text.split(",")), default=(), help="URDF files that get a free base, by name")
    parser.add_argument("--drop", type=float, default=0.0, help="the height from which robots with a free base are released [m]")
    parser.add_argument("--mujoco", action="store_true", help="run MJCF files with a free base in MuJoCo, too")
    parser.add_argument("--pictures", type=Path, help="a folder for pictures")
    parser.add_argument("--markdown", type=Path, help="a file for the table in Markdown")
    given = parser.parse_args()
    if given.pictures is not None:
        given.pictures.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # of inertias and limits in files; what a run does is measured
    table = Table(*COLUMNS, title=f"{given.seconds:g} s; {results.head_text(results.head())}")
    rows = []
    for path in (path for path in files(given.folder) if given.only in str(path)):
        rows.append(row(path, given.folder, given))
        table.add_row(*rows[-1])
        print(" | ".join(rows[-1]), flush=True)
        if given.mujoco and path.suffix == ".xml" and rows[-1][1] == "free":
            print(f"    in MuJoCo {in_mujoco(path, ready(path, given), given.seconds)}", flush=True)
    Console(width=240).print(table)
    if given.markdown is not None:
        lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
        given.markdown.write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
