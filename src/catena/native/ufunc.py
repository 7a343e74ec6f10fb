"""Makes a NumPy gufunc of machine code, through NumPy's C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.errors import CompileError
from catena.graph import Port
from catena.native.arguments import padded
from catena.native.numpy_api import gufunc_constructor

_NO_IDENTITY = -1
_DOUBLE = 12  # NPY_DOUBLE

_immortal: list[Any] = []


def signature(inputs: Sequence[Port], outputs: Sequence[Port]) -> str:
    """Return NumPy's signature with the sizes in place.

    >>> signature([Port("q", (7,)), Port("t", ())], [Port("poses", (8, 4, 4))])
    '(7),()->(8,4,4)'
    """
    takes, gives = (",".join(f"({','.join(map(str, padded(port.shape)))})" for port in ports) for ports in (inputs, outputs))
    return f"{takes}->{gives}"


def gufunc(name: str, address: int, data: np.ndarray, inputs: Sequence[Port], outputs: Sequence[Port], keep_alive: Any) -> np.ufunc:
    """Return a gufunc on doubles that runs the loop at an address with a table of data, and keeps an object alive."""
    operands = len(inputs) + len(outputs)
    functions = (ctypes.c_void_p * 1)(address)
    tables = (ctypes.c_void_p * 1)(data.ctypes.data)
    types = (ctypes.c_char * operands)(*[_DOUBLE] * operands)
    title, text = ctypes.create_string_buffer(name.encode()), ctypes.create_string_buffer(b"A compiled kernel of catena.")
    shapes = signature(inputs, outputs).encode()
    arrays = [ctypes.addressof(array) for array in (functions, tables, types)]
    names = [ctypes.cast(string, ctypes.c_char_p) for string in (title, text)]
    made = gufunc_constructor()(*arrays, 1, len(inputs), len(outputs), _NO_IDENTITY, *names, 0, shapes)
    _attach(made, len(inputs), len(outputs), arrays[0], (functions, tables, types, title, text, data, keep_alive))
    return made


class _Head(ctypes.Structure):
    """The first fields of NumPy's PyUFuncObject after the object header, as its public header file has them."""

    _fields_ = [
        ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
        ("functions", ctypes.c_void_p), ("data", ctypes.c_void_p), ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int),
        ("name", ctypes.c_void_p), ("types", ctypes.c_void_p), ("doc", ctypes.c_void_p), ("ptr", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
    ]  # fmt: skip


def _attach(made: np.ufunc, nin: int, nout: int, functions: int, keep_alive: Any) -> None:
    """Let a ufunc own what its machine code needs: NumPy drops the field `obj` together with the ufunc."""
    if not isinstance(made, np.ufunc):
        raise CompileError(f"NumPy {np.__version__} did not make a ufunc of the kernel")
    head = _Head.from_address(id(made) + object.__basicsize__)
    if (head.nin, head.nout, head.nargs, head.functions, head.obj) == (nin, nout, nin + nout, functions, None):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(keep_alive))
        head.obj = id(keep_alive)
    else:
        # an unknown layout: better to keep it for good than to free code that may still be called
        _immortal.append(keep_alive)
