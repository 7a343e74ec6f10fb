"""The scripts in examples/ run from anywhere and print what is true; the built-in models are sound."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import catena as ct
from catena.examples import EXAMPLES, gallery
from catena.model.joints import JOINTS

pytestmark = pytest.mark.evaluated

SCRIPTS = Path(__file__).parents[1] / "examples"
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def run(name, folder, *arguments):
    """Return what a script prints, run in another folder."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPTS / name), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONIOENCODING": "utf-8"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text):
    return [float(x) for x in re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?", text)]


def pendulum(text):
    by_catena, by_hand = numbers(text)
    assert by_catena == by_hand == round(1.5 * 9.81, 3)


def batch(text):
    for method in ("composite-body", "innovations", "articulated-body"):
        assert re.search(rf"^{method} +[\d,]+ operations a state$", text, re.M)
    assert text.endswith("10,000 states, largest relative difference below 1e-12: True\n")


def joints(text):
    shown = dict(re.findall(r"^(\w+) +q: (.*)$", text, re.M))
    assert {*shown, "fixed"} == set(JOINTS)
    vdot = {kind: [float(x) for x in row.split()] for kind, row in zip(shown, re.findall(r"vdot: \[(.*)\]", text), strict=True)}
    down = 9.81 * np.array([np.sin(np.pi / 6), 0.0, -np.cos(np.pi / 6)])
    assert vdot["prismatic"] == vdot["custom"] == [round(down[0], 3)]
    assert vdot["cylindrical"] == [0.0, round(down[0], 3)]
    assert vdot["planar"] == [round(down[0], 3), 0.0, 0.0]
    assert vdot["free"] == [0.0, 0.0, 0.0, *down.round(3)]
    moment = (0.2**2 + 0.1**2) / 12 + 0.1**2  # of the box about the joint, per kilogram
    assert vdot["revolute"] == vdot["universal"][1:] == vdot["spherical"][1:2] == [round(-0.1 * down[2] / moment, 3)]
    about_z = moment + 0.01**2
    assert vdot["helical"] == [round(0.01 * down[2] / about_z, 3)]
    assert "mass matrix [[4.]]" in text


def inverse_dynamics(text):
    errors = [float(x) for x in re.findall(r"off the path by (\S+) rad", text)]
    # both poles at -10 1/s: the error is e0 (1 + 10 t) exp(-10 t), whatever the arm
    expected = [0.05 * (1 + 10 * t) * np.exp(-10 * t) for t in (0.0, 0.5, 1.0, 1.5, 2.0)]
    np.testing.assert_allclose(errors, expected, rtol=0.05)


def custom_joint(text):
    by_catena, by_hand, before, after = numbers(text)
    assert by_catena == by_hand == round(-(0.8 * 0.3**2 + 9.81 * 0.8) / 1.64, 9)
    assert before == after == round(0.05 * 0.3**2 * 1.64 + 0.1 * 9.81 * 0.32, 4)


def double_pendulum(text):
    energy, _, parted = re.fullmatch(r"energy: (\S+) J, .* 1e-8: (True)\n.* 10 cm apart after (\S+) s\n", text).groups()
    upper, lower = np.sin(np.radians(45.0)), np.sin(np.radians(75.0))
    assert float(energy) == round(9.81 * (0.5 * upper + upper + 0.5 * lower), 3)
    assert 8.0 < float(parted) < 14.0  # chaos: the last digit of a processor decides on the rest


def top(text):
    rows = re.findall(r"between (\S+) and (\S+) degrees; theory: (\S+) and (\S+)", text)
    assert len(rows) == 3
    for row in rows:
        lowest, highest, by_theory, also = map(float, row)
        assert (lowest, highest) == pytest.approx((by_theory, also), abs=0.011)
    flips, between, theory = re.search(r"flips (\d+) times, (\S+) s apart; theory: (\S+) s", text).groups()
    assert int(flips) == 5
    assert float(between) == pytest.approx(float(theory), abs=2e-6)


def bouncing(text):
    assert text.startswith("6 bounces, ")
    assert "all agree to 1e-9 s: True" in text
    heights, by_hand = re.search(r"^heights: (.*) m\nby hand: (.*) m$", text, re.M).groups()
    assert heights == by_hand == ", ".join(f"{0.64**n:.4f}" for n in range(1, 7))


def contact(text):
    start, end, _, _, carried, moved, _ = (float(x) for x in re.findall(r"\d+(?:\.\d+)?(?:e[-+]\d+)?(?= J| N| mm| m/s)", text))
    weight = 9.81 * (3.0 + 1.0 + 12.0 + 4 * 1.7)
    assert start > end > 0.0
    assert abs(carried - weight) < 0.1
    assert moved < 10.0


def control(text):
    ends = re.findall(r"cart from 0\.50 to (\S+) m, pole from 25\.0 to (\S+) degrees", text)
    assert len(ends) == 2
    assert ends[0] == ends[1]
    assert all(abs(float(x)) < 0.01 for x in ends[0])
    assert text.endswith("below 1e-9: True\n")


def five_bar(text):
    lines = text.splitlines()
    assert "bar1, bar2 do not determine bar4" in lines[0]
    assert lines[1] == "<Reduced 'five-bar': 4 coordinates from bar1, bar4>"
    assert [line.endswith(": True") for line in lines[2:4]] == [True, True]
    assert numbers(lines[4]) == pytest.approx([0.81, 1.69], abs=0.001)


def shaken_pendulum(text):
    least, slow, fast = text.splitlines()
    assert f"above {np.sqrt(9.81) / 0.05:.1f} rad/s" in least
    assert "falls" in slow
    assert "stays upright" in fast


def meet(p, r, q, s):
    """Return the point at distances r from p and s from q, on the left of the way from p to q, as complex numbers."""
    along = (r**2 - s**2 + abs(q - p) ** 2) / (2.0 * abs(q - p))
    return p + (along + 1j * np.sqrt(r**2 - along**2)) * (q - p) / abs(q - p)


def four_bar_height(angle):
    """Return the potential energy of the four-bar linkage at an angle of its crank, by hand."""
    end = 0.3 * np.exp(1j * angle)
    pin = meet(end, 1.0, 1.0, 0.6)
    return 9.81 * (1.5 * 0.5 * end + 5.0 * 0.5 * (end + pin) + 3.0 * 0.5 * (1.0 + pin)).imag


def five_bar_height(first, second, side):
    """Return the potential energy of the five-bar robot at the angles of its motors, by hand; side is +1 with the tip above."""
    left, right = 0.6 * np.exp(1j * first), 1.2 + 0.7 * np.exp(1j * second)
    tip = meet(left, 1.1, right, 0.8) if side > 0 else meet(right, 0.8, left, 1.1)
    return 9.81 * (3.0 * 0.5 * left + 1.6 * 0.5 * (left + tip) + 2.0 * 0.5 * (right - 1.2) + 1.1 * 0.5 * (right + tip)).imag


def slope(function, *x, by=0):
    """Return the derivative of a function by one of its arguments."""
    step = [1e-5 * (i == by) for i in range(len(x))]
    return (function(*map(sum, zip(x, step, strict=True))) - function(*(a - h for a, h in zip(x, step, strict=True)))) / 2e-5


def four_bar(text):
    lines = text.splitlines()
    torque = numbers(lines[1])
    # without acceleration at both ends, the torque holds the weight
    assert [torque[0], torque[-1]] == pytest.approx([slope(four_bar_height, np.radians(x)) for x in (30.0, 90.0)], abs=6e-4)
    lowest, highest = np.radians(numbers(lines[2]))
    assert lowest == pytest.approx(np.pi / 2, abs=1e-4)
    assert four_bar_height(highest) == pytest.approx(four_bar_height(np.pi / 2), abs=0.01)  # at rest at both ends of its swing
    assert numbers(lines[4]) == pytest.approx([7.36], abs=0.02)
    assert [line.endswith(": True") for line in lines] == [True, False, False, True, False, True]


def five_bar_robot(text):
    for side, sign, in_line, left in (("below", -1, 1.333, 3.91), ("above", +1, 0.482, 2.73)):
        lines = [line for line in text.splitlines() if f"tip {side}" in line]
        assert numbers(lines[0])[0] == pytest.approx(in_line, abs=1e-3)
        torques = numbers(lines[1])
        for angles, found in (((30.0, 30.0), torques[:2]), ((90.0, 70.3), torques[-2:])):
            a, b = np.radians(angles)
            by_hand = [slope(five_bar_height, a, b, sign, by=i) for i in (0, 1)]
            assert found == pytest.approx(by_hand, abs=6e-4)
        assert numbers(lines[2]) == pytest.approx([left], abs=0.02)
        assert [line.endswith(": True") for line in lines] == [True, False, False, True]


def upright(text):
    lines = text.splitlines()
    assert [", stable, " in lines[0], ", unstable, " in lines[1]] == [True, True]
    # the eigenvalues at the lowest point are those of its mode
    frequency = float(lines[3].split()[1])
    assert numbers(lines[0])[-1] == pytest.approx(-2.0 * np.pi * frequency, abs=0.01)
    held, fallen = (float(x) for x in re.findall(r"([\d.]+) (?:degrees|without)", lines[5]))
    assert held < 0.01
    assert fallen > 90.0


def identify(text):
    assert "below 15: True" in text
    assert re.search(r"^57 base parameters, 5[5-7] within 3 standard errors$", text, re.M)
    assert numbers(text)[-3] < 0.1  # of the noise
    before, after = re.findall(r"(\S+) N m off", text)
    assert float(after) < 0.05 * float(before)


def shape_linkage(text):
    lines = text.splitlines()
    before, after = numbers(lines[0])
    assert before > 100.0
    assert after == pytest.approx(2.1, abs=0.1)
    found = {line[:10].strip(): numbers(line[10:])[0] for line in lines[2:]}
    # the proportions of Hoecken's linkage, which is known to push straight and evenly: 1 : 2 : 2.5 : 2.5, and 5 to the finger
    crank, slacks = found["crank"], [found[f"slack{i}"] for i in (1, 2, 3)]
    ground, coupler, rocker = (crank + 0.5 * (sum(slacks) - slacks[i]) for i in (0, 1, 2))
    proportions = np.array([ground, coupler, rocker, np.hypot(found["finger x"], found["finger z"])]) / crank
    np.testing.assert_allclose(proportions, [2.0, 2.5, 2.5, 5.0], rtol=0.15)


def balance_spring(text):
    lines = text.splitlines()
    alone = numbers(lines[0])[0]
    moment = 9.81 * (0.4 * 0.225 + 0.3 * 0.225 + 0.9 * 0.45)
    angles = np.radians(np.linspace(-45.0, 70.0, 116))
    assert alone == pytest.approx(moment * np.sqrt(np.mean(np.cos(angles) ** 2)), abs=1e-3)
    ideal, real = (float(re.search(r"on: (\S+) N m", lines[i])[1]) for i in (1, 3))
    assert ideal < 1e-6
    assert real == pytest.approx(0.018, abs=1e-3)
    assert numbers(lines[5]) == [round(moment, 6)] * 2


def waypoints(text):
    lines = text.splitlines()
    assert lines[0].startswith("4 of 4 way points reached")
    assert float(re.search(r"at most (\S+) um", lines[1])[1]) <= 10.0
    millimetres, degrees = re.search(r"within (\S+) mm, tilted by (\S+) degrees", lines[2]).groups()
    assert float(millimetres) < 1.0
    assert float(degrees) < 0.01


def environment(text):
    means = [float(x) for x in re.findall(r"^round \d+: +(\S+) of 500 steps on average", text, re.M)]
    assert len(means) == 6
    assert means[0] < 100.0
    assert means[-1] > 400.0
    held, count = re.search(r"holds (\S+)% of (\S+) new poles up for 500 steps", text).groups()
    assert float(held) > 99.0
    assert count == "4,096"


def gripper(text):
    lines = text.splitlines()
    assert lines[0] == "<Model 'arm': 10 bodies, nq = 9, nv = 9, loops = 2, couplings = 1>"
    assert lines[1] == "loops closed to 1e-9 m: True"
    assert lines[3] == "the robot from a file makes the same step: True"


def swing_up(text):
    for name in ("cart-pole", "double-pendulum"):
        lines = [line for line in text.splitlines() if line.startswith(name)]
        by_gradients, by_ilqr = (float(re.search(r"cost (\S+) after", line)[1]) for line in lines[:2])
        assert by_ilqr <= by_gradients + 0.001
        assert max(map(float, re.findall(r"(\S+) and (\S+) degrees", lines[2])[0])) < 15.0
        alone, along = (re.search(r": (\S+) degrees from upright, (\S+) after", line).groups() for line in lines[3:])
        assert max(map(float, along)) < 2.0 < float(alone[0])


def five_bar_motion(text):
    lines = text.splitlines()
    quintic, by_slsqp, by_ilqr = (float(re.search(r"effort (\S+) N", line)[1]) for line in lines[:3])
    assert quintic == pytest.approx(697.4, abs=0.1)
    assert by_slsqp == pytest.approx(by_ilqr, rel=3e-3)  # two searches with different variables and conditions
    assert by_ilqr < 0.78 * quintic
    assert [float(re.search(r"(\S+) degrees off", line)[1]) for line in lines[1:3]] == pytest.approx([0.0, 0.0], abs=0.02)
    assert lines[3].endswith(": True")


def tune_controller(text):
    lines = text.splitlines()
    springs, load = numbers(lines[1]), numbers(lines[3])[0]
    assert springs == sorted(springs, reverse=True)  # the further out, the less there is to move
    assert 1.0 < load < 2.5  # loads are between 0 and 3 kg
    before, after, worst, then = numbers(lines[4])
    assert after < 0.1 * before
    assert then < 0.1 * worst
    assert numbers(lines[5])[0] > 99.0


SILENT = (pendulum, batch, joints, inverse_dynamics, custom_joint, shaken_pendulum)
DRAWN = (
    double_pendulum, top, bouncing, contact, control, five_bar, four_bar, five_bar_robot, upright, identify, shape_linkage,
    balance_spring, environment, swing_up, five_bar_motion, tune_controller, gripper, waypoints,
)  # fmt: skip
CHECKS = {f"{check.__name__}.py": check for check in (*SILENT, *DRAWN)}


def test_every_script_is_checked():
    assert {path.name for path in SCRIPTS.glob("*.py")} == set(CHECKS)


@pytest.mark.pages
@pytest.mark.parametrize("name", CHECKS)
def test_script_prints_what_is_true_and_draws_the_picture_of_the_gallery(name, tmp_path):
    CHECKS[name](run(name, tmp_path))
    drawn = [f"{check.__name__}.png" for check in DRAWN if f"{check.__name__}.py" == name]
    assert [path.name for path in tmp_path.iterdir()] == drawn
    for picture in drawn:
        check_picture(tmp_path / picture)
        check_alike(PICTURES / picture, tmp_path / picture)


@pytest.mark.pages
def test_script_draws_where_it_is_told(tmp_path):
    run("bouncing.py", tmp_path, "drawn.png")
    assert [path.name for path in tmp_path.iterdir()] == ["drawn.png"]


def check_picture(path):
    """Check that a picture is one: a PNG of a sensible size, not of one colour."""
    pixels = image(path)
    height, width, _ = pixels.shape
    assert 400 <= height <= 2000
    assert 800 <= width <= 2200
    assert 0.005 < np.mean(pixels[..., :3].min(axis=-1) < 0.9) < 0.5  # ink


def image(path):
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    return pytest.importorskip("matplotlib.image").imread(path)


def check_alike(kept, drawn):
    """Check that a picture of the documentation is what its script draws."""
    check_picture(kept)
    assert kept.stat().st_size < 200_000
    before, now = image(kept), image(drawn)
    assert np.abs(np.subtract(before.shape, now.shape)).max() <= 2  # versions of matplotlib round margins differently
    # fonts differ from machine to machine, curves do not: compare what is left of both in squares of 10 x 10
    height, width = (10 * (min(n) // 10) for n in zip(before.shape[:2], now.shape[:2], strict=True))
    coarse = [x[:height, :width, :3].reshape(height // 10, 10, width // 10, 10, 3).mean(axis=(1, 3)) for x in (before, now)]
    assert np.abs(coarse[0] - coarse[1]).mean() < 0.03


@pytest.mark.pages
@pytest.mark.parametrize("name", ["joints.py", "batch.py"])
def test_script_prints_the_same_twice(name, tmp_path):
    assert run(name, tmp_path) == run(name, tmp_path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_model_is_named_like_its_entry_and_described(name):
    make = EXAMPLES[name]
    assert make().name == name
    assert (make.__doc__ or "").startswith("Return ")


@pytest.mark.parametrize("name", [name for name, make in EXAMPLES.items() if not make().has_loops])
def test_inverse_dynamics_undoes_forward_dynamics(name):
    m = EXAMPLES[name]()
    rng = np.random.default_rng(1)
    q = np.array([m.random(rng) for _ in range(20)])
    v, tau = rng.normal(size=(2, 20, m.nv))
    vdot = ct.forward_dynamics(m)(q, v, tau)
    force = np.abs(ct.bias_force(m)(q, v)).max() + 1.0
    np.testing.assert_allclose(ct.inverse_dynamics(m)(q, v, vdot), tau, rtol=0, atol=1e-9 * force)


def test_arm_is_as_described():
    m = EXAMPLES["arm"]()
    axes = [np.array(link.joint.axis) for link in m.links]
    assert all(abs(a @ b) < 1e-12 for a, b in pairwise(axes))  # in turn along and across
    for link in m.links:
        products = link.body.inertia[np.triu_indices(3, 1)]
        assert np.all(products != 0.0)
    tip = ct.poses(m)(np.zeros(7))[-1, :3, 3] + [0, 0, 0.16]
    assert np.linalg.norm(tip - [0, 0, 0.15]) == pytest.approx(1.2, abs=0.05)


def test_humanoid_is_as_described():
    m = EXAMPLES["humanoid"]()
    assert sum(link.body.mass for link in m.links) == pytest.approx(72, abs=0.5)
    assert {link.joint.kind for link in m.links} == {"free", "spherical", "universal", "revolute", "fixed"}
    heights = dict(zip(m.body_names, ct.poses(m)(m.neutral())[:, 2, 3], strict=True))
    assert heights["head"] + 0.13 + 0.11 - (heights["left foot"] - 0.075) == pytest.approx(1.8, abs=0.05)


def test_top_on_its_tip_turns_upright_without_falling():
    m = EXAMPLES["top"]()
    vdot = ct.forward_dynamics(m)(m.neutral(), [0.0, 0.0, 50.0], np.zeros(3))
    np.testing.assert_allclose(vdot, 0.0, atol=1e-12)


def test_gallery_shows_every_joint_and_every_option():
    links = gallery().links
    assert {link.joint.kind for link in links} == set(JOINTS)
    assert {link.joint.kind for link in gallery(custom=False).links} == set(JOINTS) - {"custom"}
    for option in ("damping", "stiffness", "friction", "armature"):
        assert any(any(getattr(link.joint, option)) for link in links), option
    assert any(link.joint.rest is not None for link in links)
