"""Writes the LLVM IR of an elimination: loops over the rows of a system, whose sizes and tree come from a table.

Unknowns of a chain are eliminated a few at a time: what they take from a row is summed up in registers, so that the row is read and written
once for all of them; and two rows go together, so that what is read of the pivots' rows serves both.
"""

from __future__ import annotations

from collections.abc import Callable

from catena.graph import Elimination
from catena.native.llvm.layout import ALIGN
from catena.native.llvm.lines import BLOCK, Lines

#: Unknowns that are eliminated together, at most; with more, their multipliers would not stay in registers.
TOGETHER = 4

#: What the table tells of a row: where it begins [bytes], the number of ancestors, the parent, the length of the run that begins or ends.
_START, _DEPTH, _PARENT, _RUN = range(4)


def structure(elimination: Elimination, size: int) -> list[int]:
    """Return the table of an elimination, for entries of so many bytes: numbers of unknowns and of operands, then four entries per row."""
    parent = elimination.parent
    runs = [0] * len(parent)
    last = len(parent) - 1
    while last >= 0:
        first = last
        while last - first + 1 < TOGETHER and first and parent[first] == first - 1:
            first -= 1
        runs[first] = runs[last] = last - first + 1
        last = first - 1
    rows = zip(elimination.starts, elimination.depth, parent, runs, strict=True)
    return [len(parent), elimination.size, *[x for start, depth, up, run in rows for x in (start * size, depth, max(up, 0), run)]]


class _Writer(Lines):
    """Writes a function: rows are pointers, columns are counted by 64-bit integers, entries are vectors of lanes."""

    def field(self, row: str, which: int) -> str:
        """Return what the table tells of a row."""
        return self.integer("%rows", self.plus(self.new(f"shl i64 {row}, 2"), which))

    def row(self, row: str) -> str:
        """Return the pointer to a row."""
        return self.at("%work", self.field(row, _START), "i8")

    def minus(self, value: str, factors: list[str], others: list[str]) -> str:
        """Return a value less the products of factors and others."""
        for a, b in zip(factors, others, strict=True):
            value = self.op("fsub", value, self.op("fmul", a, b))
        return value

    def choose(self, which: str, body: Callable[[int], None]) -> None:
        """Write a choice of the cases 1 to `TOGETHER`."""
        labels, done = [self.label() for _ in range(TOGETHER)], self.label()
        cases = " ".join(f"i64 {case}, label %{label}" for case, label in enumerate(labels, 1))
        self.append(f"  switch i64 {which}, label %{done} [ {cases} ]")
        for case, label in enumerate(labels, 1):
            self.append(f"{label}:")
            body(case)
            self.append(f"  br label %{done}")
        self.append(f"{done}:")

    def separate(self, head: str) -> str:
        """Return the function of these lines, which stays apart: inlined, its values would compete for registers with those around it."""
        return self.function(head, f"noinline nounwind alignstack({ALIGN})")


def _eliminate(lanes: int, together: int) -> str:
    """Return `@eliminate{together}(work, rows, last, one)`: the rows of all ancestors without a run of unknowns that ends with `last`."""
    writer = _Writer(lanes)
    run = range(together)  # from the last unknown of the run to its first
    rows = [writer.row(writer.plus("%last", -a)) for a in run]
    first = writer.plus("%last", 1 - together)
    above = writer.field(first, _DEPTH)
    columns = [writer.plus(above, together - a) for a in run]

    # the run by itself
    entries = {(a, b): writer.load(rows[a], columns[b]) for a in run for b in run[a:]}
    inverse: list[str] = []
    factor: dict[tuple[int, int], str] = {}
    for a in run:
        for b in run[a:]:
            rest = writer.minus(entries[a, b], [factor[c, a] for c in run[:a]], [entries[c, b] for c in run[:a]])
            entries[a, b] = rest
            if b == a:
                inverse.append(writer.op("fdiv", "%one", rest))
            else:
                factor[a, b] = writer.op("fmul", rest, inverse[a])
            writer.store(inverse[a] if b == a else rest, rows[a], columns[b])

    def column(j: str) -> None:
        entries = [writer.load(row, j) for row in rows]
        for a in run[1:]:
            entries[a] = writer.minus(entries[a], [factor[c, a] for c in run[:a]], entries[:a])
            writer.store(entries[a], rows[a], j)

    writer.loop("0", columns[-1], column)

    # then its ancestors, two at a time, the nearest first
    def factors(column: str) -> list[str]:
        return [writer.op("fmul", writer.load(rows[a], column), inverse[a]) for a in run]

    def reduce(j: str, *others: tuple[str, list[str]]) -> None:
        entries = [writer.load(row, j) for row in rows]
        for other, multipliers in others:
            writer.store(writer.minus(writer.load(other, j), multipliers, entries), other, j)

    ancestor = writer.variable("i64", writer.field(first, _PARENT))

    def pair(at: str) -> None:
        near = writer.get("i64", ancestor)
        far = writer.field(near, _PARENT)
        both = (writer.row(near), factors(at)), (writer.row(far), factors(writer.plus(at, -1)))
        reduce(at, both[0])
        writer.loop("0", at, lambda j: reduce(j, *both))
        writer.set("i64", ancestor, writer.field(far, _PARENT))

    def root() -> None:
        alone = writer.row(writer.get("i64", ancestor)), factors("1")
        reduce("0", alone)
        reduce("1", alone)

    left = writer.loop(above, "2", pair, -2)
    writer.when(writer.new(f"icmp eq i64 {writer.get('i64', left)}, 1"), root)
    return writer.separate(f"internal void @eliminate{together}(ptr %work, ptr %rows, i64 %last, {writer.vector} %one)")


def _substitute(lanes: int, together: int) -> str:
    """Return `@substitute{together}(work, rows, path, first)`: the solution of a run of unknowns; that of its ancestors is on the path."""
    writer = _Writer(lanes)
    run = range(together)  # from the first unknown of the run to its last
    rows = [writer.row(writer.plus("%first", a)) for a in run]
    above = writer.field("%first", _DEPTH)
    sums = [writer.variable(writer.vector, writer.load(row)) for row in rows]

    def ancestor(j: str) -> None:
        known, column = writer.load("%path", j), writer.plus(j, 1)
        for row, sum_ in zip(rows, sums, strict=True):
            writer.store(writer.minus(writer.load(sum_), [writer.load(row, column)], [known]), sum_)

    writer.loop("0", above, ancestor)
    solved: list[str] = []
    for a in run:
        columns = [writer.plus(above, b + 1) for b in run[: a + 1]]
        *entries, inverse = (writer.load(rows[a], column) for column in columns)
        solved.append(writer.op("fmul", writer.minus(writer.load(sums[a]), entries, solved), inverse))
        writer.store(solved[a], rows[a])
        writer.store(solved[a], "%path", writer.plus(above, a))
    return writer.separate(f"internal void @substitute{together}(ptr %work, ptr %rows, ptr %path, i64 %first)")


def eliminate(name: str, lanes: int) -> str:
    """Return the IR of the block of eliminations and of its parts.

    Its row of places holds the table of `structure`, the places of the operands, and that of the slots to work in; its number is 1.
    """
    writer = _Writer(lanes)
    unknowns, operands = writer.integer("%places", "0"), writer.integer("%places", "1")
    writer.append("  %rows = getelementptr i32, ptr %places, i64 2")
    reads = writer.new(f"getelementptr [4 x i32], ptr %rows, i64 {unknowns}")
    writer.append(f"  %work = getelementptr i8, ptr %scratch, i64 {writer.integer(reads, operands)}")
    writer.append(f"  %path = getelementptr {writer.vector}, ptr %work, i64 {operands}")
    one = writer.broadcast(writer.entry("%numbers", 0, "double"))

    def inward(count: str) -> str:
        last = writer.plus(count, -1)
        run = writer.field(last, _RUN)
        arguments = f"ptr %work, ptr %rows, i64 {last}, {writer.vector} {one}"
        writer.choose(run, lambda together: writer.append(f"  call void @eliminate{together}({arguments})"))
        return writer.new(f"sub i64 0, {run}")

    def outward(first: str) -> str:
        run = writer.field(first, _RUN)
        arguments = f"ptr %work, ptr %rows, ptr %path, i64 {first}"
        writer.choose(run, lambda together: writer.append(f"  call void @substitute{together}({arguments})"))
        return run

    writer.loop("0", operands, lambda i: writer.store(writer.load(writer.place(i, reads)), "%work", i))
    writer.loop(unknowns, "1", inward, -1)
    writer.loop("0", unknowns, outward)
    parts = [part(lanes, together) for together in range(1, TOGETHER + 1) for part in (_eliminate, _substitute)]
    return "".join((*parts, writer.separate(f"void @{name}({BLOCK})")))
