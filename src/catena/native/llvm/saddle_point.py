"""Writes the LLVM IR of a saddle point (`catena.graph.SaddlePoint`): loops over one state after the other, whose sizes come from a table.

Pivots are chosen state by state, so that lanes cannot run side by side. The numbers of a state are copied to memory of their own, where a
column is a row of vectors: the loops over its entries use all lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from catena.graph import SaddlePoint
from catena.native.llvm.state_code import SystemCode

#: How many sizes the table of a system begins with, and of how many parts of its memory it tells then where they begin [doubles].
_SIZES, _PARTS = 7, len(SaddlePoint(1, 1, 1).parts)


def structure(system: SaddlePoint, size: int) -> list[int]:
    """Return the table of a system: its sizes, then where each part of its memory begins."""
    n, m = system.unknowns, system.constraints
    starts = list(accumulate(system.parts.values(), initial=0))[:-1]
    return [n, m, system.columns, *system.padded, min(n, m), *starts]


def saddle_point(name: str, lanes: int) -> str:
    """Return the IR of the block of saddle points, a module of its own.

    Its row of places holds the table of `structure`, the places of the operands, and that of the slots of its result, before those to work
    in; its numbers are 1, `UNDETERMINED` and `ROUNDING`.
    """
    return _SaddlePointCode(lanes).block(name)


class _SaddlePointCode(SystemCode):
    """Writes the steps of `SaddlePoint.solution`, in its letters; `order` lists the unknowns, those that depend first.

    `n`, `m`, `k` count unknowns, constraints and columns of right-hand sides; `wide`, `tall`, `deep` are n, m and the most pivots, padded.
    """

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        sizes = [self.integer("%places", i) for i in range(_SIZES)]
        self.n, self.m, self.k, self.wide, self.tall, self.deep, self.pivots = sizes
        starts = [self.integer("%places", _SIZES + i) for i in range(_PARTS)]
        self.small, self.rounding = (self.entry("%numbers", i, "double") for i in (1, 2))
        triangle = self.new(f"lshr i64 {self.times(self.n, self.plus(self.n, 1))}, 1")
        operands = self.plus(triangle, 2)
        for a, b in ((self.m, self.n), (self.m, self.k), (self.n, self.k)):
            operands = self.plus(operands, self.times(a, b))
        numbers = self.times(self.k, self.plus(self.n, self.new(f"shl i64 {self.m}, 1")))
        self.place_result(_SIZES + _PARTS, operands, self.plus(numbers, 4))
        self.J, self.g, self.R, self.y, self.M, self.f, self.H, self.z, *vectors = (self.at(self.memory, start) for start in starts)
        self.x, self.wide_work, self.deep_work, self.multipliers, self.squares, self.diagonal, self.order = vectors
        self.end = self.at(self.order, self.wide)

    def state(self, lane: str) -> None:
        """Solve the system of one state."""
        tolerance, most = self.read(self.at("%scratch", lane))
        longest, rank = self.orthogonalise(tolerance, most)
        last, free = self.plus(rank, -1), self.new(f"sub i64 {self.n}, {rank}")
        self.substitute(rank, last)
        self.reduce(rank, free)
        remainder, undetermined = self.factor(rank, free)
        self.loop("0", self.k, lambda c: self.solve(c, rank, free, lane))

        # how sure the rank is
        root = self.root(self.get("double", longest))
        any_pivot = self.new(f"icmp sgt i64 {rank}, 0")
        place = self.new(f"select i1 {any_pivot}, i64 {last}, i64 0")
        least = self.new(f"select i1 {any_pivot}, double {self.op('fdiv', self.load(self.diagonal, place), root)}, double {self.one}")
        first = self.times(self.k, self.plus(self.n, self.new(f"shl i64 {self.m}, 1")))
        facts = self.new(f"sitofp i64 {rank} to double"), least, self.op("fdiv", self.root(self.get("double", remainder)), root)
        for i, value in enumerate((*facts, self.get("double", undetermined))):
            self.store(value, self.slot(self.plus(first, i)), lane)

    def unknown_at(self, i: str) -> str:
        """Return the unknown in a place of the order."""
        return self.get("i64", self.at(self.order, i))

    def read(self, slots: str) -> tuple[str, str]:
        """Copy the operands to the memory of a state, which is zero elsewhere, and return those two that are numbers."""
        operand = self.operands(slots)

        def columns(base: str, stride: str, length: str, count: str) -> None:
            def column(c: str) -> None:
                start = self.row(base, c, stride)
                self.loop("0", length, lambda i: self.store(operand(), start, i))

            self.loop("0", count, column)

        def triangle_row(i: str) -> None:
            def entry(j: str) -> None:
                value = operand()
                self.store(value, self.row(self.M, i, self.wide), j)
                self.store(value, self.row(self.M, j, self.wide), i)

            self.loop("0", self.plus(i, 1), entry)

        end, start = (self.new(f"ptrtoint ptr {place} to i64") for place in (self.end, self.memory))
        self.clear_row(self.memory, self.new(f"lshr i64 {self.new(f'sub i64 {end}, {start}')}, 3"))
        columns(self.J, self.tall, self.m, self.n)
        columns(self.g, self.tall, self.m, self.k)
        self.loop("0", self.n, triangle_row)
        columns(self.f, self.wide, self.n, self.k)
        return operand(), operand()

    def orthogonalise(self, tolerance: str, most: str) -> tuple[str, str]:
        """Make the columns of J orthogonal, the longest first; return the square of the longest, a variable, and the rank."""
        longest = self.variable("double", self.one)

        def begin(j: str) -> None:
            self.set("i64", self.at(self.order, j), j)
            column = self.row(self.J, j, self.tall)
            square = self.dot(column, column, self.tall)
            self.store(square, self.squares, j)
            self.raise_to(longest, square)

        self.loop("0", self.n, begin)
        least_square = self.op("fmul", self.op("fmul", tolerance, tolerance), self.get("double", longest))
        rank = self.variable("i64", "0")

        def pivot(s: str) -> None:
            best, place = self.variable("double", "0.0"), self.variable("i64", s)

            def compare(p: str) -> None:
                square = self.load(self.squares, self.unknown_at(p))

                def better() -> None:
                    self.set("double", best, square)
                    self.set("i64", place, p)

                self.when(self.new(f"fcmp ogt double {square}, {self.get('double', best)}"), better)

            def take() -> None:
                self.take_pivot(s, self.get("i64", place))
                self.set("i64", rank, self.plus(s, 1))

            self.loop(s, self.n, compare)
            self.when(self.new(f"fcmp ogt double {self.get('double', best)}, {least_square}"), take)

        def step(s: str) -> None:
            # a step that takes no pivot is the last: those after it find the rank behind them
            fits = self.new(f"icmp eq i64 {s}, {self.get('i64', rank)}")
            wanted = self.new(f"fcmp olt double {self.new(f'sitofp i64 {s} to double')}, {most}")
            self.when(self.new(f"and i1 {fits}, {wanted}"), lambda: pivot(s))

        self.loop("0", self.pivots, step)
        return longest, self.get("i64", rank)

    def take_pivot(self, s: str, place: str) -> None:
        """Make step s with the column in a place of the order, and take it from the columns after it and from the right-hand sides."""
        j, other = self.unknown_at(place), self.unknown_at(s)
        self.set("i64", self.at(self.order, s), j)
        self.set("i64", self.at(self.order, place), other)
        column, factors = self.row(self.J, j, self.tall), self.row(self.R, j, self.deep)

        def again(t: str) -> None:
            before = self.row(self.J, self.unknown_at(t), self.tall)
            share = self.dot(before, column, self.tall)
            self.subtract(column, before, share, self.tall)
            self.store(self.op("fadd", self.load(factors, t), share), factors, t)

        self.loop("0", s, again)
        length = self.root(self.dot(column, column, self.tall))
        self.store(length, factors, s)
        self.store(length, self.diagonal, s)
        inverse = self.op("fdiv", self.one, length)
        self.loop("0", self.m, lambda i: self.store(self.op("fmul", self.load(column, i), inverse), column, i))

        def after(p: str) -> None:
            i = self.unknown_at(p)
            rest = self.row(self.J, i, self.tall)
            share = self.dot(column, rest, self.tall)

            def less() -> None:  # in the blocks of other loops there is nothing to do
                self.store(share, self.row(self.R, i, self.deep), s)
                self.subtract(rest, column, share, self.tall)
                self.store(self.dot(rest, rest, self.tall), self.squares, i)

            self.when(self.new(f"fcmp une double {share}, 0.0"), less)

        def right(c: str) -> None:
            rest = self.row(self.g, c, self.tall)
            share = self.dot(column, rest, self.tall)
            self.store(share, self.row(self.y, c, self.deep), s)
            self.subtract(rest, column, share, self.tall)

        self.loop(self.plus(s, 1), self.n, after)
        self.loop("0", self.k, right)

    def substitute(self, rank: str, last: str) -> None:
        """Write what depends by what does not: R11^-1 R12, and for the right-hand sides."""

        def back(column: str) -> None:
            def step(s: str) -> None:
                value = self.op("fdiv", self.load(column, s), self.load(self.diagonal, s))
                self.subtract(column, self.row(self.R, self.unknown_at(s), self.deep), value, self.whole(self.plus(s, 1)))
                self.store(value, column, s)

            self.loop(last, "0", step, -1)

        self.loop(rank, self.n, lambda p: back(self.row(self.R, self.unknown_at(p), self.deep)))
        self.loop("0", self.k, lambda c: back(self.row(self.y, c, self.deep)))

    def reduce(self, rank: str, free: str) -> None:
        """Write the form on the unknowns that do not depend, and its right-hand sides."""

        def project(column: str, first: str, write: Callable[[str, str], None]) -> None:
            """Write N^T (vector - M column), the vector in the wide work space, for the unknowns from a place on."""
            vector = self.wide_work

            def shift(s: str) -> None:
                share = self.load(column, s)
                differs = self.new(f"fcmp une double {share}, 0.0")
                self.when(differs, lambda: self.subtract(vector, self.row(self.M, self.unknown_at(s), self.wide), share, self.wide))

            def entry(b: str) -> None:
                i = self.unknown_at(self.plus(rank, b))
                write(b, self.op("fsub", self.load(vector, i), self.dot(self.row(self.R, i, self.deep), self.deep_work, self.deep)))

            self.loop("0", rank, shift)
            self.loop("0", rank, lambda s: self.store(self.load(vector, self.unknown_at(s)), self.deep_work, s))
            self.loop(first, free, entry)

        def form(a: str) -> None:
            i = self.unknown_at(self.plus(rank, a))
            self.copy_row(self.wide_work, self.row(self.M, i, self.wide), self.wide)
            project(self.row(self.R, i, self.deep), a, lambda b, value: self.store(value, self.row(self.H, b, self.wide), a))

        def right(c: str) -> None:
            self.copy_row(self.wide_work, self.row(self.f, c, self.wide), self.wide)
            z = self.row(self.z, c, self.wide)
            project(self.row(self.y, c, self.deep), "0", lambda b, value: self.store(value, z, b))

        self.loop("0", free, form)
        self.loop("0", self.k, right)

    def factor(self, rank: str, free: str) -> tuple[str, str]:
        """Factor the form; return the longest square of a column that is no pivot, and the number of undetermined unknowns, variables.

        The squares of lengths are not needed any more, and make room for the inverse pivots.
        """
        undetermined, remainder = self.variable("double", "0.0"), self.variable("double", "0.0")
        self.loop(rank, self.n, lambda p: self.raise_to(remainder, self.load(self.squares, self.unknown_at(p))))
        most_mass = self.variable("double", "0.0")
        self.loop("0", self.n, lambda i: self.raise_to(most_mass, self.load(self.row(self.M, i, self.wide), i)))
        vanishing = self.op("fmul", self.rounding, self.get("double", most_mass))

        def step(a: str) -> None:
            row = self.row(self.H, a, self.wide)

            def entry(c: str) -> None:
                other = self.row(self.H, c, self.wide)
                rest = self.op("fsub", self.load(row, c), self.product(row, other, c))
                self.store(self.op("fmul", rest, self.load(self.squares, c)), row, c)

            self.loop("0", a, entry)
            whole = self.load(row, a)
            pivot = self.op("fsub", whole, self.product(row, row, a))
            in_part = self.new(f"fcmp ole double {pivot}, {self.op('fmul', self.small, whole)}")
            nothing = self.new(f"or i1 {in_part}, {self.new(f'fcmp ole double {pivot}, {vanishing}')}")
            inverse = self.op("fdiv", self.one, self.root(pivot))
            self.store(self.new(f"select i1 {nothing}, double 0.0, double {inverse}"), self.squares, a)
            self.when(nothing, lambda: self.set("double", undetermined, self.op("fadd", self.get("double", undetermined), self.one)))

        self.loop("0", free, step)
        return remainder, undetermined

    def solve(self, c: str, rank: str, free: str, lane: str) -> None:
        """Write unknowns, multipliers and residual of a column of right-hand sides to the slots of the result."""
        z, known = self.row(self.z, c, self.wide), self.row(self.y, c, self.deep)

        def forward(a: str) -> None:
            rest = self.op("fsub", self.load(z, a), self.product(self.row(self.H, a, self.wide), z, a))
            self.store(self.op("fmul", rest, self.load(self.squares, a)), z, a)

        def backward(a: str) -> None:
            value = self.op("fmul", self.load(z, a), self.load(self.squares, a))
            self.store(value, z, a)
            row = self.row(self.H, a, self.wide)
            self.loop("0", a, lambda b: self.store(self.op("fsub", self.load(z, b), self.op("fmul", self.load(row, b), value)), z, b))

        def free_unknown(a: str) -> None:
            i = self.unknown_at(self.plus(rank, a))
            self.store(self.load(z, a), self.x, i)
            self.subtract(known, self.row(self.R, i, self.deep), self.load(z, a), self.deep)

        self.loop("0", free, forward)
        self.loop(self.plus(free, -1), "0", backward, -1)
        self.loop("0", free, free_unknown)
        self.loop("0", rank, lambda s: self.store(self.load(known, s), self.x, self.unknown_at(s)))

        # the unknowns, and what is left of f: the shortest multipliers make up for it
        unknowns = self.slot(self.times(c, self.n))
        self.copy_row(self.wide_work, self.row(self.f, c, self.wide), self.wide)

        def unknown(j: str) -> None:
            value = self.load(self.x, j)
            self.subtract(self.wide_work, self.row(self.M, j, self.wide), value, self.wide)
            self.store(value, self.slot(j, unknowns), lane)

        def multiplier(s: str) -> None:
            j = self.unknown_at(s)
            before = self.dot(self.row(self.R, j, self.deep), self.deep_work, self.whole(self.plus(s, 1)))
            value = self.op("fdiv", self.op("fsub", self.load(self.wide_work, j), before), self.load(self.diagonal, s))
            self.store(value, self.deep_work, s)
            self.subtract(self.multipliers, self.row(self.J, j, self.tall), self.new(f"fneg double {value}"), self.tall)

        self.loop("0", self.n, unknown)
        self.clear_row(self.deep_work, self.deep)
        self.clear_row(self.multipliers, self.tall)
        self.loop("0", rank, multiplier)
        after = self.times(self.k, self.n)
        second = self.plus(after, self.times(self.k, self.m))
        for start, column in ((after, self.multipliers), (second, self.row(self.g, c, self.tall))):
            to = self.slot(self.plus(start, self.times(c, self.m)))
            self.loop("0", self.m, lambda i, x=column, to=to: self.store(self.load(x, i), self.slot(i, to), lane))
