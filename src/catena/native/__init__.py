"""Graphs to machine code: `compile_graph` makes a `Kernel`, which NumPy calls."""

from catena.native.kernel import Kernel, compile_graph

__all__ = ["Kernel", "compile_graph"]
