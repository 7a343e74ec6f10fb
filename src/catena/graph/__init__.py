"""Traced scalars, the graphs they build, and the programs that graphs become.

`Trace` records what plain NumPy code does to its inputs, `Graph` is the result: an immutable list of operations with named inputs and
outputs. `OPERATIONS` is the table of all operations. `divided` makes the `Program` of blocks and calls that `catena.native` compiles and
`catena.export` writes, after the passes of `catena.graph.passes`.
"""

from catena.graph import recipes as _recipes  # noqa: F401, by which straight-line functions are traced
from catena.graph.arrays import traced_array
from catena.graph.division import divided, iterated_program, program_of
from catena.graph.elimination import Elimination, Entry
from catena.graph.functions import atan2, maximum, minimum, where
from catena.graph.graph import SYSTEMS, Graph, Port, Subgraph
from catena.graph.linear_system import LinearSystem
from catena.graph.operations import OPERATIONS
from catena.graph.program import ELIMINATE, LINEAR_SYSTEM, SADDLE_POINT, Block, Call, Program
from catena.graph.saddle_point import SaddlePoint, SaddlePointSolution
from catena.graph.scalar import Condition, Scalar
from catena.graph.trace import Trace, without_collection

__all__ = [
    "ELIMINATE", "LINEAR_SYSTEM", "OPERATIONS", "SADDLE_POINT", "SYSTEMS", "Block", "Call", "Condition", "Elimination", "Entry", "Graph",
    "LinearSystem", "Port", "Program", "SaddlePoint", "SaddlePointSolution", "Scalar", "Subgraph", "Trace", "atan2", "divided",
    "iterated_program", "maximum", "minimum", "program_of", "traced_array", "where", "without_collection",
]  # fmt: skip
