"""Messages have a length that can be read, and nothing that is printed gives orders to a terminal."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import catena as ct
from catena import errors
from catena.cli import app
from catena.errors import LONGEST, CatenaError, printable

pytestmark = pytest.mark.quick

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, (CatenaError, UserWarning))]

#: What clears a screen, sets the title of a window, turns text around, or rings.
ORDERS = "arm\x1b[2J\x1b]0;title\x07\x9b31m\u202e\r\x7f"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_message_is_bounded_and_keeps_its_beginning_and_its_remedy(kind: type[Exception]) -> None:
    said = str(kind("robot.xml:3: body 'a' " + "x" * 100_000 + "; rename it"))
    assert len(said) == LONGEST
    assert said.startswith("robot.xml:3: body 'a' xxx")
    assert said.endswith("xxx; rename it")
    again = pickle.loads(pickle.dumps(kind(said)))
    assert (type(again), str(again)) == (kind, said)
    assert str(kind("arm: \x1b[2J\u202e is not é, 日本")) == "arm: \\x1b[2J\\u202e is not é, 日本"
    assert str(kind("two\nlines")) == "two\nlines"
    assert kind().args == ()


def scene(folder: Path) -> Path:
    tendons = "".join(f'<fixed name="tendon_{i}" stiffness="1"><joint joint="j" coef="1"/></fixed>' for i in range(700))
    body = '<worldbody><body name="a"><joint name="j"/><geom size=".1"/></body></worldbody>'
    (folder / "scene.xml").write_text(f"<mujoco>{body}<tendon>{tendons}</tendon><deformable/></mujoco>")
    return folder / "scene.xml"


LONG: dict[str, Callable[[Path], Any]] = {
    "text for a path": lambda folder: ct.load("<mujoco>\n" * 2000),
    "a path": lambda folder: ct.load("x/" * 3000 + "m.xml"),
    "a name": lambda folder: ct.Model("m").add("a", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent="b" * 9999),
    "a value": lambda folder: ct.Revolute([0.1] * 9999),
    "a method": lambda folder: ct.forward_dynamics(ct.Model("m" * 9999), "x" * 9999),
    "actuators": lambda folder: ct.load(scene(folder)),
}


@pytest.mark.parametrize("what", LONG)
def test_errors_of_long_values_are_bounded(what: str, tmp_path: Path) -> None:
    with pytest.raises(CatenaError) as caught:
        LONG[what](tmp_path)
    assert len(str(caught.value)) <= LONGEST


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A model whose names hold orders."""
    m = ct.Model(f"model {ORDERS}")
    m.add(ORDERS, ct.rod(1.0, mass=1.0), ct.Revolute("y", damping=m.parameter("ease", 0.1)))
    m.add(f"{ORDERS} 2", ct.rod(1.0, mass=1.0), ct.Revolute("y"), parent=ORDERS, at=(1, 0, 0))
    m.add_spring(f"spring {ORDERS}", "ground", f"{ORDERS} 2", at_b=(1, 0, 0), stiffness=1.0)
    m.add_frame(f"frame {ORDERS}", ORDERS)
    m.parts.notes.append(f"note {ORDERS}")
    m.save(tmp_path / "m.toml")
    return tmp_path / "m.toml"


COMMANDS = [
    ["info", "{m}"], ["info", "{m}", "--parameters"], ["info", "{m}", "--json"], ["simulate", "{m}", "--until", "0.1"], ["compare", "{m}"],
    ["simulate", "{m}", "--until", "0.1", "--json"], ["simulate", "{m}", "--set", f"{ORDERS}x=1"], ["info", ORDERS], [ORDERS],
    ["bench", ORDERS], ["simulate", "{m}", "--until", ORDERS], ["info", "{m}", f"--{ORDERS}"], ["view", "{m}", "--picture", "{m}.png"],
    ["sweep", "{m}", "--parameter", "ease=0.1:0.2:2", "--measure", f"torque:{ORDERS}", "--until", "0.1"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: printable(" ".join(command)).replace("{m}", "m"))
def test_the_command_prints_no_orders_to_the_terminal(command: list[str], hostile: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        printed = CliRunner().invoke(app, [part.replace("{m}", str(hostile)) for part in command])
    text = printed.output + printed.stderr
    assert text
    assert printed.exit_code in (0, 1, 2), text
    assert all(c.isprintable() or c in "\n\t" for c in text), text


def test_what_models_show_of_themselves_gives_no_orders(hostile: Path) -> None:
    m = ct.load(hostile)
    run = ct.simulate(m, m.neutral(), until=0.1)
    for shown in (repr(m), str(m.mobility()), str(m), repr(run), str(run), repr(ct.forward_dynamics(m))):
        assert all(c.isprintable() or c == "\n" for c in shown), shown
