"""Makes Python functions of machine code for one state, beside the gufunc."""

from __future__ import annotations

import ctypes
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np

from catena.graph import Port
from catena.native.llvm import machine
from catena.native.llvm.single_call import AXES, BUFFER, DESCRIPTION, FLAGS, NDIM, OPERANDS, SHAPE, TYPE, Table, single_call
from catena.native.numpy_api import array_functions

_FASTCALL = 0x0080  # Python's METH_FASTCALL

_PYTHON = {
    Table.NEW_TUPLE: "PyTuple_New", Table.SET_ITEM: "PyTuple_SetItem", Table.INCREF: "Py_IncRef", Table.DECREF: "Py_DecRef",
    Table.OCCURRED: "PyErr_Occurred", Table.CLEAR: "PyErr_Clear",
}  # fmt: skip


class _Method(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


def nothing(*arrays: Any) -> Any:
    """Return `NotImplemented`, as a function of one state does that cannot take its arguments."""
    return NotImplemented


class SingleCalls(ABC):
    """A kernel that answers one state quickly, in arrays that are as they should be; it has another way for all other arguments."""

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Return the outputs for arrays given in the order of `inputs`, or by name; `out=` takes the array, or arrays, to write to."""
        if not named:
            results = self._one(*arrays) if out is None else self._one_into(*arrays, *(out if isinstance(out, tuple) else (out,)))
            if results is not NotImplemented:
                return results
        return self._general(arrays, out, named)

    @cached_property
    def _one(self) -> Callable[..., Any]:
        return self.for_one_state(given=False)

    @cached_property
    def _one_into(self) -> Callable[..., Any]:
        return self.for_one_state(given=True)

    @abstractmethod
    def for_one_state(self, *, given: bool) -> Callable[..., Any]:
        """Return the function of one state, see `for_one_state`."""

    @abstractmethod
    def _general(self, arrays: tuple, out: Any, named: dict[str, Any]) -> Any:
        """Return the outputs for any arguments."""


def for_one_state(
    loop: int,
    data: np.ndarray,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    keep_alive: Any,
    *,
    given: bool = False,
    flagged: bool = False,
) -> Callable[..., Any]:
    """Return the function of one state that runs a gufunc's loop, or returns `NotImplemented` for arguments that need the gufunc.

    It takes arrays for the results after the arguments where these are `given`. Of a kernel that is `flagged`, the last output is a flag:
    states where it is not zero are not answered.
    """
    operands, shown = (*inputs, *outputs), len(outputs) - flagged
    fits = len(operands) < OPERANDS and all(port.size and len(port.shape) <= AXES for port in operands)
    if not (fits and shown and _known_layout()):
        return nothing
    strides = [tuple(8 * math.prod(port.shape[k + 1 :]) for k in range(len(port.shape))) for port in operands]
    steps = np.array([0] * len(operands) + list(chain.from_iterable(strides)) + [0], dtype=np.int64)
    table = np.zeros(len(Table) + DESCRIPTION * len(operands), dtype=np.uint64)
    arrays = array_functions()
    entries = {
        Table.LOOP: loop, Table.DATA: data.ctypes.data, Table.STEPS: steps.ctypes.data, Table.INPUTS: len(inputs), Table.OUTPUTS: shown,
        Table.GIVEN: given, Table.NOT_IMPLEMENTED: id(NotImplemented), Table.ARRAY: id(np.ndarray), Table.FLOAT: id(float),
        Table.NUMBER: id(np.float64), Table.DOUBLE: id(np.dtype(float)), Table.EMPTY: arrays["empty"], Table.RETURN: arrays["return"],
        **{entry: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for entry, name in _PYTHON.items()},
    }  # fmt: skip
    for entry, value in entries.items():
        table[entry] = value
    for port, at in zip(operands, range(len(Table), len(table), DESCRIPTION), strict=True):
        table[at : at + 1 + len(port.shape)] = len(port.shape), *port.shape
        table[at + AXES + 1] = 8 * port.size
    code = _code()
    method = _Method(b"single", code.addresses["single"], _FASTCALL, None)
    return _new_function()(ctypes.addressof(method), table, (method, steps, np.dtype(float), code, data, keep_alive))


@cache
def _code() -> machine.Code:
    return machine.compiled(single_call(), ("single",))[0]


@cache
def _new_function() -> Any:
    """Return Python's function that makes one of a PyMethodDef, its `self`, and what lives as long."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    return make


@cache
def _known_layout() -> bool:
    """Return whether objects lie in memory as the machine code takes them to: looked up in an array and in numbers of known content."""
    if object.__basicsize__ != 16 or float.__basicsize__ != 24:
        return False
    probe = np.zeros((3, 5))
    start = id(probe)

    def field(kind: Any, offset: int) -> Any:
        return kind.from_address(start + offset).value

    sizes = (ctypes.c_int64 * 2).from_address(field(ctypes.c_void_p, SHAPE))
    number = np.float64(2.5)
    return (
        field(ctypes.c_void_p, 8) == id(np.ndarray)
        and field(ctypes.c_void_p, BUFFER) == probe.ctypes.data
        and (field(ctypes.c_int, NDIM), *sizes) == (2, 3, 5)
        and field(ctypes.c_void_p, TYPE) == id(np.dtype(float))
        and field(ctypes.c_int, FLAGS) == probe.flags.num
        and [ctypes.c_double.from_address(id(x) + 16).value for x in (1.5, number)] == [1.5, 2.5]
    )
