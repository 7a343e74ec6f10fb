"""Traced scalars and the graphs they build.

`Trace` records what plain NumPy code does to its inputs, `Graph` is the result: an immutable list of operations with named inputs and
outputs. `partition` cuts a graph into the blocks and calls that `catena.native` compiles.
"""

from catena.graph.elimination import Elimination, Entry
from catena.graph.functions import atan2, maximum, minimum, where
from catena.graph.graph import SYSTEMS, Graph, Port, kinds
from catena.graph.partition import ELIMINATE, SADDLE_POINT, Block, Call, Program, partition
from catena.graph.saddle_point import SaddlePoint, Solution
from catena.graph.scalar import Condition, Scalar, Trace

__all__ = [
    "ELIMINATE", "SADDLE_POINT", "SYSTEMS", "Block", "Call", "Condition", "Elimination", "Entry", "Graph", "Port", "Program", "SaddlePoint",
    "Scalar", "Solution", "Trace", "atan2", "kinds", "maximum", "minimum", "partition", "where",
]
