"""Traced scalars and the graphs they build.

`Trace` records what plain NumPy code does to its inputs, `Graph` is the result: an immutable list of operations with named inputs and
outputs. `partition` cuts a graph into the blocks and calls that `catena.native` compiles.
"""

from catena.graph.elimination import Elimination, Entry
from catena.graph.functions import atan2, maximum, minimum, where
from catena.graph.graph import Graph, Port, kinds
from catena.graph.partition import ELIMINATE, Block, Call, Program, partition
from catena.graph.scalar import Condition, Scalar, Trace

__all__ = [
    "ELIMINATE", "Block", "Call", "Condition", "Elimination", "Entry", "Graph", "Port", "Program", "Scalar", "Trace",
    "atan2", "kinds", "maximum", "minimum", "partition", "where",
]
