"""Writes the LLVM IR of an elimination: loops over the rows of a system, whose sizes and tree come from a table.

Unknowns of a chain are eliminated a few at a time: what they take from a row is summed up in registers, so that the row is read and written
once for all of them; and two rows go together, so that what is read of the pivots' rows serves both.
"""

from __future__ import annotations

from collections.abc import Callable

from catena.graph import Elimination
from catena.native.llvm.layout import ALIGN
from catena.native.llvm.lines import FLAGS, Lines

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
        return self.new(f"getelementptr i8, ptr %work, i64 {self.field(row, _START)}")

    def load(self, row: str, column: str) -> str:
        at = self.new(f"getelementptr {self.vector}, ptr {row}, i64 {column}")
        return self.new(f"load {self.vector}, ptr {at}, {self.aligned}")

    def store(self, value: str, row: str, column: str) -> None:
        at = self.new(f"getelementptr {self.vector}, ptr {row}, i64 {column}")
        self.append(f"  store {self.vector} {value}, ptr {at}, {self.aligned}")

    def times(self, a: str, b: str) -> str:
        return self.new(f"fmul {FLAGS} {self.vector} {a}, {b}")

    def minus(self, value: str, factors: list[str], others: list[str]) -> str:
        """Return a value less the products of factors and others."""
        for a, b in zip(factors, others, strict=True):
            value = self.new(f"fsub {FLAGS} {self.vector} {value}, {self.times(a, b)}")
        return value

    def variable(self, kind: str, value: str) -> str:
        """Return a new variable, which the optimiser keeps in a register."""
        name = self.new(f"alloca {kind}, {self.aligned}")
        self.append(f"  store {kind} {value}, ptr {name}")
        return name

    def loop(self, name: str, start: str, test: str, limit: str, body: Callable[[str], str | None]) -> None:
        """Write a loop whose counter passes a test against a limit; the body may return the step, which is 1 if it does not."""
        self += [f"  br label %{name}_before", f"{name}_before:", f"  br label %{name}_head", f"{name}_head:"]
        self.append(f"  %{name} = phi i64 [ {start}, %{name}_before ], [ %{name}_next, %{name}_end ]")
        more = self.new(f"icmp {test} i64 %{name}, {limit}")
        self += [f"  br i1 {more}, label %{name}_body, label %{name}_exit", f"{name}_body:"]
        step = body(f"%{name}") or "1"
        self += [f"  br label %{name}_end", f"{name}_end:", f"  %{name}_next = add i64 %{name}, {step}"]
        self += [f"  br label %{name}_head", f"{name}_exit:"]

    def choose(self, name: str, which: str, most: int, body: Callable[[int], None]) -> None:
        """Write a choice of the cases 1 to `most`."""
        cases = " ".join(f"i64 {case}, label %{name}{case}" for case in range(1, most + 1))
        self.append(f"  switch i64 {which}, label %{name}_chosen [ {cases} ]")
        for case in range(1, most + 1):
            self.append(f"{name}{case}:")
            body(case)
            self.append(f"  br label %{name}_chosen")
        self.append(f"{name}_chosen:")

    def function(self, head: str) -> str:
        """Return the function of these lines, which stays apart: inlined, its values would compete for registers with those around it."""
        return "\n".join((f"\ndefine {head} noinline nounwind alignstack({ALIGN}) {{", *self, "  ret void\n}\n"))


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
                inverse.append(writer.new(f"fdiv {FLAGS} {writer.vector} %one, {rest}"))
            else:
                factor[a, b] = writer.times(rest, inverse[a])
            writer.store(inverse[a] if b == a else rest, rows[a], columns[b])

    def column(j: str) -> None:
        entries = [writer.load(row, j) for row in rows]
        for a in run[1:]:
            entries[a] = writer.minus(entries[a], [factor[c, a] for c in run[:a]], entries[:a])
            writer.store(entries[a], rows[a], j)

    writer.loop("column", "0", "sle", above, column)

    # then its ancestors, two at a time, the nearest first
    def factors(column: str) -> list[str]:
        return [writer.times(writer.load(rows[a], column), inverse[a]) for a in run]

    def reduce(j: str, *others: tuple[str, list[str]]) -> None:
        entries = [writer.load(row, j) for row in rows]
        for other, multipliers in others:
            writer.store(writer.minus(writer.load(other, j), multipliers, entries), other, j)

    ancestor = writer.variable("i64", writer.field(first, _PARENT))

    def pair(at: str) -> str:
        near = writer.new(f"load i64, ptr {ancestor}")
        far = writer.field(near, _PARENT)
        both = (writer.row(near), factors(at)), (writer.row(far), factors(writer.plus(at, -1)))
        reduce(at, both[0])
        writer.loop("both", "0", "slt", at, lambda j: reduce(j, *both))
        writer.append(f"  store i64 {writer.field(far, _PARENT)}, ptr {ancestor}")
        return "-2"

    def root(at: str) -> None:
        alone = writer.row(writer.new(f"load i64, ptr {ancestor}")), factors(at)
        reduce("0", alone)
        reduce(at, alone)

    writer.loop("pair", above, "sgt", "1", pair)
    writer.choose("left", "%pair", 1, lambda _: root("1"))
    return writer.function(f"internal void @eliminate{together}(ptr %work, ptr %rows, i64 %last, {writer.vector} %one)")


def _substitute(lanes: int, together: int) -> str:
    """Return `@substitute{together}(work, rows, path, first)`: the solution of a run of unknowns; that of its ancestors is on the path."""
    writer = _Writer(lanes)
    run = range(together)  # from the first unknown of the run to its last
    rows = [writer.row(writer.plus("%first", a)) for a in run]
    above = writer.field("%first", _DEPTH)
    sums = [writer.variable(writer.vector, writer.load(row, "0")) for row in rows]

    def ancestor(j: str) -> None:
        known, column = writer.load("%path", j), writer.plus(j, 1)
        for row, sum_ in zip(rows, sums, strict=True):
            writer.store(writer.minus(writer.load(sum_, "0"), [writer.load(row, column)], [known]), sum_, "0")

    writer.loop("ancestor", "0", "slt", above, ancestor)
    solved: list[str] = []
    for a in run:
        columns = [writer.plus(above, b + 1) for b in run[: a + 1]]
        *entries, inverse = (writer.load(rows[a], column) for column in columns)
        solved.append(writer.times(writer.minus(writer.load(sums[a], "0"), entries, solved), inverse))
        writer.store(solved[a], rows[a], "0")
        writer.store(solved[a], "%path", writer.plus(above, a))
    return writer.function(f"internal void @substitute{together}(ptr %work, ptr %rows, ptr %path, i64 %first)")


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
    one = writer.broadcast(writer.new("load double, ptr %numbers, !invariant.load !2"))

    def copy(i: str) -> None:
        writer.store(writer.load(writer.new(f"getelementptr i8, ptr %scratch, i64 {writer.integer(reads, i)}"), "0"), "%work", i)

    def inward(count: str) -> str:
        last = writer.plus(count, -1)
        run = writer.field(last, _RUN)
        arguments = f"ptr %work, ptr %rows, i64 {last}, {writer.vector} {one}"
        writer.choose("last", run, TOGETHER, lambda together: writer.append(f"  call void @eliminate{together}({arguments})"))
        return writer.new(f"sub i64 0, {run}")

    def outward(first: str) -> str:
        run = writer.field(first, _RUN)
        arguments = f"ptr %work, ptr %rows, ptr %path, i64 {first}"
        writer.choose("first", run, TOGETHER, lambda together: writer.append(f"  call void @substitute{together}({arguments})"))
        return run

    writer.loop("copied", "0", "slt", operands, copy)
    writer.loop("inward", unknowns, "sgt", "0", inward)
    writer.loop("outward", "0", "slt", unknowns, outward)
    parts = [part(lanes, together) for together in range(1, TOGETHER + 1) for part in (_eliminate, _substitute)]
    read = "ptr noalias readonly"
    return "".join((*parts, writer.function(f"void @{name}(ptr noalias %scratch, {read} %places, {read} %numbers, {read} %data)")))
