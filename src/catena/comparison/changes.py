"""Two measurements of the same things: what became slower or faster beyond the noise, and what else differs between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: By how much two runs of the same code differ that repeats within a run do not show, such as by where code and data lie in memory.
BETWEEN_RUNS = 0.05


@dataclass(frozen=True)
class Change:
    """A time before and now [us], and the second over the first: `verdict` is "slower" or "faster" where that is beyond `noise`.

    `noise` is relative: 0.05 where 5 % more or less mean nothing.
    """

    name: str
    before_us: float
    now_us: float
    noise: float
    ratio: float
    verdict: str


def change(name: str, before_us: float, now_us: float, noise: float = 0.0) -> Change:
    """Return the change of a time; `noise` is what is known of it, beside that between runs.

    >>> [change("step", 1.0, now, 0.1).verdict for now in (0.8, 0.9, 1.1, 1.2)]
    ['faster', '', '', 'slower']
    """
    noise, ratio = (1.0 + BETWEEN_RUNS) * (1.0 + noise) - 1.0, now_us / before_us
    verdict = "slower" if ratio > 1.0 + noise else "faster" if ratio * (1.0 + noise) < 1.0 else ""
    return Change(name, before_us, now_us, noise, ratio, verdict)


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return which entries differ, such as processor and versions, and how.

    >>> differing({"cores": 2, "numpy": "2.3"}, {"cores": 2, "numpy": "2.4", "pinocchio": "4.1"})
    ['numpy 2.3, now 2.4', 'pinocchio none, now 4.1']
    """
    names = [*before, *(name for name in now if name not in before)]
    return [f"{name} {before.get(name, 'none')}, now {now.get(name, 'none')}" for name in names if before.get(name) != now.get(name)]


def beyond(changes: list[Change], factor: float) -> list[Change]:
    """Return what takes more than so many times as long, beyond the noise."""
    return [one for one in changes if one.verdict == "slower" and one.ratio > factor]
