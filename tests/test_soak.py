"""Mechanisms of all families, and features that meet, at fixed seeds agree with independent answers; `make soak` explores others."""

from __future__ import annotations

import numpy as np
import pytest
from tests.explorations.loops import CHECKS, explore
from tests.families import FAMILIES, VARIANTS, mechanism
from tests.loop_referee import LoopReferee, closure
from tests.referee import Referee, relative
from tests.soak import EXPLORATIONS

import catena as ct

pytestmark = pytest.mark.fuzz

#: Every family with one seed, and every variant of one.
VARIED = dict(zip(VARIANTS, ("kite", "anything", "grid", "planar", "spatial"), strict=True))
NAMES = [*FAMILIES, *(f"{family}+{variant}" for variant, family in VARIED.items())]


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_mechanisms_of_a_family_agree_with_the_referee(number: int) -> None:
    checks = list(CHECKS)
    found = explore(number, NAMES[number], [checks[number % len(checks)]])
    assert not found.failures, "\n".join(f"{failure.what}: {failure.detail}\n{failure.script}" for failure in found.failures)
    assert found.counts["forward dynamics, auto"] > 0


#: Mechanisms that exploration found wrong, by family and seed.
WRONG_ONCE = [
    ("legs+light+ratios", 900000316),  # a light platform between heavy legs: accelerations by denoc lost 9 digits
    ("legs+huge+ratios", 20261137),  # a leg of a heavy and a light body: they lost 8
    ("legs+tiny", 20262465),  # a leg near a singular configuration: they lost 8
    ("known+ratios+tiny", 20263673),  # so did they here
    ("planar+huge+light", 20266046),  # light links: accelerations by multipliers lost 8 digits
    ("legs+tiny", 20263898),  # slides 10,000 times as long as the mechanism: the generic configuration did not close
]


@pytest.mark.parametrize(("name", "seed"), WRONG_ONCE)
def test_mechanisms_that_were_wrong_once_agree_with_the_referee(name: str, seed: int) -> None:
    found = explore(seed, name, ["methods"])
    assert not found.failures, "\n".join(f"{failure.what}: {failure.detail}" for failure in found.failures)


@pytest.mark.evaluated
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", sorted({*EXPLORATIONS} - {"loops"}))
def test_features_that_meet_agree_with_independent_answers(name: str, seed: int) -> None:
    found = EXPLORATIONS[name](seed)
    assert not found.failures, "\n".join(f"{failure.what}: {failure.detail}\n{failure.script}" for failure in found.failures)
    assert found.counts


def test_the_referee_of_loops_equals_that_by_least_squares() -> None:
    """Two independent solutions: by the null space of the constraints, and of all bodies and joints at once."""
    for name in ("planar", "anything", "legs", "grid"):
        sample = mechanism(name, 3)
        m, rng = sample.model, np.random.default_rng(0)
        at = LoopReferee(m, sample.size).at(m.assemble(guess=m.random(1)))
        v, tau = at.velocity(rng.normal(size=m.nv)), rng.normal(size=m.nv)
        assert np.abs(closure(at.referee, at.q)[0]).max() < 1e-11
        assert relative(at.accelerations(v, tau), Referee(m).forward_with_loops(at.q, v, tau), scale=1e-3) < 1e-8


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploration tells accelerations that are off by a millionth, and prints a script that runs."""
    forward = ct.forward_dynamics

    def off(m: ct.Model, *arguments: object) -> object:
        kernel = forward(m, *arguments)  # type: ignore[arg-type]
        return lambda *state: kernel(*state) * (1.0 + 1e-6)

    monkeypatch.setattr(ct, "forward_dynamics", off)
    found = explore(1, "planar", [])
    assert {failure.what for failure in found.failures} == {"forward dynamics, auto"}
    monkeypatch.undo()
    names: dict[str, object] = {}
    exec(found.failures[0].script, names)
    m = names["m"]
    assert isinstance(m, ct.Model)
    assert relative(ct.forward_dynamics(m)(names["q"], names["v"], names["tau"]), names["expected"]) < 1e-9
