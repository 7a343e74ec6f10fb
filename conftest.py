"""What every docstring example may use: catena as `ct`, `catena.examples` as `examples` and NumPy as `np`; pages that are shown for no
time; and one thread for small matrices, where more take longer."""

import importlib.util
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

import catena
from catena import examples
from catena.view.viewer import Viewer


def pytest_collection_modifyitems(items: list) -> None:
    """Mark the tiers, and skip the examples of packages that are not installed."""
    for item in items:
        if item.path.name == "test_benchmarks.py":
            item.add_marker(pytest.mark.benchmarks)
    for name in ("casadi", "jax"):
        if importlib.util.find_spec(name) is None:
            for item in items:
                if item.name.endswith(f".export_{name}"):
                    item.add_marker(pytest.mark.skip(reason=f"{name} is not installed"))


@pytest.fixture(autouse=True)
def _namespace(doctest_namespace: dict) -> None:
    doctest_namespace.update(ct=catena, examples=examples, np=np)


@pytest.fixture(autouse=True)
def _no_page_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Viewer, "open", lambda viewer: None)
    monkeypatch.setattr(Viewer, "wait", Viewer.stop)
