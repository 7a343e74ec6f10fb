"""What every docstring example may use: catena as `ct` and NumPy as `np`."""

import numpy as np
import pytest

import catena


@pytest.fixture(autouse=True)
def _namespace(doctest_namespace: dict) -> None:
    doctest_namespace.update(ct=catena, np=np)
