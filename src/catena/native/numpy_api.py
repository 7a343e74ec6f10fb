"""Functions of NumPy's C interface, by their places in its tables."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_PLACES = {"empty": 184, "return": 76}  # PyArray_Empty, PyArray_Return
_GUFUNC = 31  # PyUFunc_FromFuncAndDataAndSignature


@cache
def array_functions() -> dict[str, int]:
    """Return the addresses of functions of arrays."""
    table = _table("_ARRAY_API")
    return {name: table[place] for name, place in _PLACES.items()}


@cache
def gufunc_constructor() -> Any:
    """Return the function that makes gufuncs."""
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, pointer, pointer, pointer, integer, integer, integer, integer, text, text, integer, text)
    return kind(_table("_UFUNC_API")[_GUFUNC])


def _table(name: str) -> Any:
    try:
        from numpy._core import _multiarray_umath as module  # pyright: ignore[reportAttributeAccessIssue, reportMissingImports]
    except ImportError:  # NumPy 1
        from numpy.core import _multiarray_umath as module  # pyright: ignore[reportAttributeAccessIssue]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(getattr(module, name), None), ctypes.POINTER(ctypes.c_void_p))
