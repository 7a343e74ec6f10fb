"""A box, a ball and a quadruped dropped on the ground come to rest on it; a biped stands for ten seconds.

Contact is compliant: the normal force grows with the depth, and friction is smoothed over a slip speed. The motors of both robots hold
their joints by springs and dampers, as PD controllers with constant set-points do.

    python examples/contact.py [picture.png] [film.mp4]
"""

import sys

import numpy as np

import catena as ct
from catena.examples import biped


def add_quadruped(m: ct.Model) -> None:
    """Add a quadruped with balls as feet, whose motors hold its legs bent."""
    m.add("torso", ct.box(0.6, 0.3, 0.12, mass=12.0), ct.Free())
    for name, x, y in (("front left", 0.25, 0.16), ("front right", 0.25, -0.16), ("hind left", -0.25, 0.16), ("hind right", -0.25, -0.16)):
        hip, knee = (ct.Revolute("y", stiffness=150.0, damping=6.0, rest=rest) for rest in (0.6, -1.2))
        m.add(f"{name} thigh", ct.rod(0.25, mass=1.2, axis="-z"), hip, parent="torso", at=(x, y, 0))
        shin = ct.Body(0.5, (0, 0, -0.12), np.diag([3e-3, 3e-3, 1e-4]), (
            ct.Geometry("rod", (0.25,), (0, 0, -0.125)), ct.Geometry("sphere", (0.03,), (0, 0, -0.25)),
        ))  # fmt: skip
        m.add(f"{name} shin", shin, knee, parent=f"{name} thigh", at=(0, 0, -0.25))
        m.add_contact(f"{name} foot", f"{name} shin", ct.Geometry("sphere", (0.03,), (0, 0, -0.25)))
    m.add_contact("belly", "torso")


def dropped() -> tuple[ct.Model, np.ndarray]:
    """Return a box, a ball and a quadruped above the ground."""
    m = ct.Model("dropped")
    m.add("box", ct.box(0.2, 0.3, 0.15, mass=3.0), ct.Free())
    m.add("ball", ct.sphere(0.12, mass=1.0), ct.Free())
    m.add_contact("box on ground", "box")
    m.add_contact("ball on ground", "ball", restitution=0.6)
    add_quadruped(m)
    places = {
        "box": (0.7, 0.0, 0.5, 0.9, 0.2, 0.3, 0.1), "ball": (0.7, -0.6, 0.6, 1, 0, 0, 0), "torso": (0.0, 0.0, 0.7, 0.99, 0.05, 0.1, 0),
    }  # fmt: skip
    q = m.neutral()
    for link, at, _ in m.slices():
        if link.name in places:
            q[at] = places[link.name]
        elif "thigh" in link.name or "shin" in link.name:
            q[at] = link.joint.rest
    return m, m.normalised(q)


def standing() -> tuple[ct.Model, np.ndarray]:
    """Return a biped with rods to its knees and feet, whose motors hold it upright."""
    m = biped()
    q = m.assemble()
    q[2] = 0.8452 - 2e-4  # the soles touch
    for side in ("left", "right"):
        m.add_contact(f"{side} sole", f"{side} foot")
    held: dict[str, float] = {}
    for motor in (name for name in m.v_names if name.endswith(("hip yaw", "hip roll", "crank"))):
        held |= {f"{motor}.stiffness": 3000.0, f"{motor}.damping": 60.0, f"{motor}.rest": q[m.q_names.index(motor)]}
    return m.with_values(held), q


def main() -> None:
    m, q0 = dropped()
    run = ct.simulate(m, q0, until=4.0, step=1e-3)
    energy = np.sum(ct.energy(m)(run.q, run.v), axis=0)
    rises = max(np.diff(energy).max(), 0.0)
    print(f"dropped: energy {energy[0]:.1f} J, {energy[-1]:.1f} J at rest; it never rises by more than {rises:.0e} J")
    carried = ct.contact_forces(m)(run.q[-1], run.v[-1])[:, 2].sum()
    print(f"fastest after 4 s: {np.abs(run.v[-1]).max():.0e} m/s or rad/s; carried: {carried:.1f} N")
    run.draw(sys.argv[1] if len(sys.argv) > 1 else "contact.png", [0.0, 0.4, 0.8, 4.0], size=(400, 400))
    if len(sys.argv) > 2:
        run.animate(sys.argv[2])

    m, q0 = standing()
    run = ct.simulate(m, q0, until=10.0, step=2e-3)
    moved = np.linalg.norm(run.q[-1, :3] - run.q[0, :3])
    print(f"biped: after 10 s its pelvis is {1000 * moved:.1f} mm from where it was, and {np.abs(run.v[-1]).max():.0e} m/s or rad/s fast")


if __name__ == "__main__":
    main()
