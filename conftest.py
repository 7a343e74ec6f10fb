"""What every docstring example may use: catena as `ct` and NumPy as `np`; and one thread for small matrices, where more take longer."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

import catena


@pytest.fixture(autouse=True)
def _namespace(doctest_namespace: dict) -> None:
    doctest_namespace.update(ct=catena, np=np)
