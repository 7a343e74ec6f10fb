"""The tiers of the tests; what every docstring example may use: catena as `ct`, `catena.examples` as `examples` and NumPy as `np`; pages
that are shown for no time; and one thread for small matrices, where more take longer."""

import gc
import importlib.util
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from tests import evaluation

import catena
from catena import examples
from catena.view.viewer import Viewer

# all rooms are imported before pytest imports one of their modules, which it would put in the place of a function of the same name
PUBLIC = catena.__all__

#: What `make test` leaves to the other tiers, which `make tiers` runs.
TIERS = ("brief", "browser", "fuzz", "long", "pages", "peers", "targets")


def pytest_collection_modifyitems(items: list) -> None:
    """Mark what is in a tier of its own, and skip the examples of packages that are not installed."""
    for item in items:
        if any(item.get_closest_marker(tier) for tier in TIERS):
            item.add_marker(pytest.mark.tier)
        if item.name == "catena.comparison.chains.growth":  # an example with many kernels
            item.add_marker(pytest.mark.evaluated)
    for name in ("casadi", "jax"):
        if importlib.util.find_spec(name) is None:
            for item in items:
                if item.name.endswith(f".export_{name}"):
                    item.add_marker(pytest.mark.skip(reason=f"{name} is not installed"))


def pytest_collection_finish() -> None:
    """Collect garbage less often: graphs are many small objects, and looking through them took a fifth of the time."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@pytest.hookimpl(tryfirst=True)  # before fixtures make kernels
def pytest_runtest_setup(item: pytest.Item) -> None:
    evaluation.choose(item)


@pytest.fixture(autouse=True)
def _namespace(doctest_namespace: dict) -> None:
    doctest_namespace.update(ct=catena, examples=examples, np=np)


@pytest.fixture(autouse=True)
def _no_page_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Viewer, "open", lambda viewer: None)
    monkeypatch.setattr(Viewer, "wait", Viewer.stop)
