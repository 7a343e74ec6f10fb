"""Compliant contact beside MuJoCo's: a box that slides, a ball that rolls, a quadruped that is dropped, from one MJCF file.

    python benchmarks/contact.py [--quick] [--json FILE] [--film FILE]

Both read the same file with its geoms and friction; catena's contact is that of `ct.load(file, contact="ground")`, in steps of 1 ms. The
figures are where things come to rest, beside closed forms where there are some, and how far the motions are apart. The film (.gif, or
.mp4 by ffmpeg) has catena's motion on the left and MuJoCo's on the right, both drawn by catena.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import mujoco
import numpy as np
import results
from PIL import Image

import catena as ct
from catena.view import painter
from catena.view.animation import save_film
from catena.view.scene import Scene

STEP, UNTIL, FPS = 1e-3, 3.0, 25
SLIDING, ROLLING, FRICTION = 2.0, 0.4, 0.5
SIZE = (480, 360)


def quadruped() -> str:
    """Return a quadruped in MJCF, whose joints are held by springs and dampers."""
    legs = []
    for name, x, y in (("fl", 0.25, 0.16), ("fr", 0.25, -0.16), ("hl", -0.25, 0.16), ("hr", -0.25, -0.16)):
        legs.append(f"""
          <body name="{name}-thigh" pos="{x} {y} 0">
            <joint axis="0 1 0" stiffness="150" damping="6" springref="34.4"/>
            <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.25" mass="1.2" rgba="0.6 0.6 0.65 1" contype="0" conaffinity="0"/>
            <body name="{name}-shin" pos="0 0 -0.25">
              <joint axis="0 1 0" stiffness="150" damping="6" springref="-68.8"/>
              <geom type="capsule" size="0.015" fromto="0 0 0 0 0 -0.25" mass="0.4" rgba="0.8 0.5 0.65 1" contype="0" conaffinity="0"/>
              <geom type="sphere" size="0.03" pos="0 0 -0.25" mass="0.1" rgba="0.3 0.3 0.35 1"/>
            </body>
          </body>""")
    return f"""<body name="torso" pos="-0.6 0 0.7" euler="5 8 0"><freejoint/>
          <geom type="box" size="0.3 0.15 0.06" mass="12" rgba="0.38 0.67 0.51 1"/>{"".join(legs)}</body>"""


SCENE = f"""<mujoco model="contact">
  <option timestep="{STEP}" cone="elliptic" impratio="10"/>
  <default><geom friction="{FRICTION} 0 0"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body name="box" pos="0 0.5 0.05"><freejoint/><geom type="box" size="0.2 0.2 0.05" mass="2" rgba="0.29 0.56 0.77 1"/></body>
    <body name="ball" pos="0 -0.5 0.1"><freejoint/><geom type="sphere" size="0.1" mass="1" rgba="0.88 0.53 0.27 1"/></body>
    {quadruped()}
  </worldbody>
</mujoco>"""


def main() -> None:
    """Run both, print and write the figures, make the film."""
    parser = results.parser(__doc__, "half a second only")
    parser.add_argument("--film", type=Path, help="a film to write, .gif or .mp4")
    given = parser.parse_args()
    until = 0.5 if given.quick else UNTIL
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "contact.xml")
        file.write_text(SCENE)
        m = ct.load(file, contact="ground")
        theirs = mujoco.MjModel.from_xml_path(str(file))
    times = np.arange(0.0, until + 0.5 / FPS, 1.0 / FPS)
    v0 = np.zeros(m.nv)
    v0[[m.v_names.index("box.vx"), m.v_names.index("ball.vx")]] = SLIDING, ROLLING
    run = ct.simulate(m, m.neutral(), v0, until=until, step=STEP, record=times[times <= until])
    scene = Scene(m)
    ours = scene.places(0.0, run.q)
    data = mujoco.MjData(theirs)
    data.qvel[[0, 6]] = SLIDING, ROLLING
    seen = []
    for t in run.t:
        while data.time < t - 0.5 * STEP:
            mujoco.mj_step(theirs, data)
        mujoco.mj_kinematics(theirs, data)
        places = np.tile(np.eye(4), (len(m.body_names) + 1, 1, 1))
        for k, name in enumerate(m.body_names):
            body = data.body(name)
            places[k, :3, :3], places[k, :3, 3] = body.xmat.reshape(3, 3), body.xpos
        seen.append(places)
    results.report("contact", figures(m, ours, np.array(seen), run.t), given)
    if given.film:
        view = painter.camera(scene.box(np.concatenate([ours, seen])))
        pictures = [side_by_side(scene, view, pair, t) for *pair, t in zip(ours, seen, run.t, strict=True)]
        save_film(given.film, given.film.suffix.lstrip("."), pictures, (2 * SIZE[0], SIZE[1]), float(FPS))


def figures(m: ct.Model, ours: np.ndarray, theirs: np.ndarray, t: np.ndarray) -> list[results.Row]:
    """Return where things are at the end, and how far apart the motions are on the way."""
    at = {name: k for k, name in enumerate(m.body_names)}
    speed = ROLLING * 5.0 / 7.0
    slipping = ROLLING * 2.0 / 7.0 / (FRICTION * 9.81)
    rolled = 0.5 * (ROLLING + speed) * slipping + speed * (t[-1] - slipping)
    braked = min(float(t[-1]), SLIDING / (FRICTION * 9.81))
    slid = SLIDING * braked - 0.5 * FRICTION * 9.81 * braked**2
    rows, seen = [], (("box", "distance slid", 0, slid), ("ball", "distance rolled", 0, rolled), ("torso", "height", 2, None))
    for name, what, axis, exact in seen:
        a, b = (places[:, at[name], :3, 3] for places in (ours, theirs))
        found = {"until_s": float(t[-1]), "catena_m": float(a[-1, axis]), "MuJoCo_m": float(b[-1, axis])}
        found |= {} if exact is None else {"closed_form_m": float(exact)}
        rows.append(results.row(name, what, **found, furthest_apart_mm=1e3 * float(np.linalg.norm(a - b, axis=1).max())))
    return rows


def side_by_side(scene: Scene, view: painter.Camera, pair: list[np.ndarray], t: float) -> Image.Image:
    """Return both motions at a time in one picture."""
    both = Image.new("RGB", (2 * SIZE[0], SIZE[1]))
    for k, (name, places) in enumerate(zip(("catena", "MuJoCo"), pair, strict=True)):
        both.paste(painter.picture(scene, places, view, 0.0, SIZE, f"{name}   {t:.2f} s"), (k * SIZE[0], 0))
    return both


if __name__ == "__main__":
    main()
