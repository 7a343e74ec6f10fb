"""Writes the LLVM IR of a linear system (`catena.graph.LinearSystem`): loops over one state after the other, whose sizes come from a table.

The rows of a state, [A B], are copied to memory of their own, where all lanes work on one of them.
"""

from __future__ import annotations

from catena.graph import LinearSystem
from catena.native.llvm.state_code import TURN, SystemCode

#: How many sizes the table of a system begins with.
_SIZES = 4


def structure(system: LinearSystem, size: int) -> list[int]:
    """Return the table of a system: unknowns, columns, and the lengths of the padded rows of A and B."""
    return [system.unknowns, system.columns, *system.padded]


def linear_system(name: str, lanes: int) -> str:
    """Return the IR of the block of linear systems, a module of its own.

    Its row of places holds the table of `structure`, the places of the operands, and that of the slots of its result, before those to work
    in; its number is 1.
    """
    return _LinearSystemCode(lanes).block(name)


class _LinearSystemCode(SystemCode):
    """Writes the steps of an elimination with exchanged rows; `order` has the pointers to rows, those of pivots first."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self.n, self.k, self.wide, self.right = (self.integer("%places", i) for i in range(_SIZES))
        self.length = self.plus(self.wide, self.right)
        operands = self.times(self.n, self.plus(self.n, self.k))
        self.place_result(_SIZES, operands, self.times(self.n, self.k))
        self.order = self.at(self.memory, self.times(self.n, self.length))

    def state(self, lane: str) -> None:
        """Solve the system of one state."""
        self.read(lane)
        self.loop("0", self.n, self.pivot)
        self.loop(self.plus(self.n, -1), "0", self.substitute, -1)

        def write(i: str) -> None:
            row, result = self.at(self.ordered(i), self.wide), self.slot(self.times(i, self.k))
            self.loop("0", self.k, lambda c: self.store(self.load(row, c), self.slot(c, result), lane))

        self.loop("0", self.n, write)

    def ordered(self, i: str) -> str:
        """Return the pointer to the row in a place of the order."""
        return self.get("ptr", self.at(self.order, i))

    def read(self, lane: str) -> None:
        """Copy the operands to the memory of a state, which is zero elsewhere."""
        operand = self.operands(self.at("%scratch", lane))
        self.clear_row(self.memory, self.times(self.n, self.length))

        def rows(first: str, count: str) -> None:
            def row(i: str) -> None:
                start = self.at(self.row(self.memory, i, self.length), first)
                self.set("ptr", self.at(self.order, i), self.row(self.memory, i, self.length))
                self.loop("0", count, lambda j: self.store(operand(), start, j))

            self.loop("0", self.n, row)

        rows("0", self.n)
        rows(self.wide, self.k)

    def pivot(self, p: str) -> None:
        """Bring the row with the largest entry of a column to its place, and take it out of the rows below."""
        largest, found = self.variable("double", "-1.0"), self.variable("i64", p)

        def look(i: str) -> None:
            size = self.new(f"call double @llvm.fabs.f64(double {self.load(self.ordered(i), p)})")

            def take() -> None:
                self.set("double", largest, size)
                self.set("i64", found, i)

            self.when(self.new(f"fcmp ogt double {size}, {self.get('double', largest)}"), take)

        self.loop(p, self.n, look)
        best = self.get("i64", found)
        row, other = self.ordered(best), self.ordered(p)
        self.set("ptr", self.at(self.order, p), row)
        self.set("ptr", self.at(self.order, best), other)
        inverse = self.op("fdiv", self.one, self.load(row, p))
        self.store(inverse, row, p)
        start = self.new(f"and i64 {p}, {-TURN}")  # what comes before in this turn is not read any more, but for the pivot
        count = self.new(f"sub i64 {self.length}, {start}")

        def below(i: str) -> None:
            rest = self.ordered(i)
            factor = self.op("fmul", self.load(rest, p), inverse)
            differs = self.new(f"fcmp une double {factor}, 0.0")
            self.when(differs, lambda: self.subtract(self.at(rest, start), self.at(row, start), factor, count))

        self.loop(self.plus(p, 1), self.n, below)

    def substitute(self, p: str) -> None:
        """Write the solution of a row to where its right-hand side was."""
        row = self.ordered(p)
        right = self.at(row, self.wide)

        def known(j: str) -> None:
            entry = self.load(row, j)
            differs = self.new(f"fcmp une double {entry}, 0.0")
            self.when(differs, lambda: self.subtract(right, self.at(self.ordered(j), self.wide), entry, self.right))

        self.loop(self.plus(p, 1), self.n, known)
        inverse = self.load(row, p)
        self.loop("0", self.k, lambda c: self.store(self.op("fmul", self.load(right, c), inverse), right, c))
