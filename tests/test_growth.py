"""The work that facts of a model take grows as the model does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catena as ct
from catena.cli.info import _facts

pytestmark = pytest.mark.quick


def chain(count: int, folder: Path) -> Path:
    m = ct.Model("chain")
    for i in range(count):
        parent = f"b{i - 1}" if i else "ground"
        m.add(f"b{i}", ct.rod(0.1, mass=1.0), ct.Revolute("yz"[i % 2], damping=0.1, limits=(-1.0, 1.0)), parent=parent, at=(0.1, 0, 0))
    m.save(folder / f"chain{count}.toml")
    return folder / f"chain{count}.toml"


def calls(function: Any, *given: Any) -> int:
    """How many functions, of Python and of C, a call calls."""
    count = 0

    def counted(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function(*given)
    finally:
        sys.setprofile(before)
    return count


def test_a_model_is_loaded_and_its_facts_are_told_in_calls_that_grow_with_its_bodies(tmp_path: Path) -> None:
    sizes = (100, 200, 400)
    _facts(ct.load(chain(sizes[-1], tmp_path)))  # what is made once
    for function in (ct.load, lambda file: _facts(ct.load(file))):
        counts = [calls(function, chain(size, tmp_path)) for size in sizes]
        first, second = np.diff(counts)
        assert second < 2.3 * first, counts  # twice for a line, four times for a square
