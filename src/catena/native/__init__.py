"""Graphs to machine code: `compile_graph` makes a `Kernel`, which NumPy calls; `Iteration` runs a graph over and over."""

from catena.native.iteration import Iteration
from catena.native.kernel import Kernel, compile_graph
from catena.native.thread_parts import threads

__all__ = ["Iteration", "Kernel", "compile_graph", "threads"]
