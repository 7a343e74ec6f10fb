"""Writes the LLVM IR of a saddle point (`catena.graph.SaddlePoint`): loops over one state after the other, whose sizes come from a table.

Pivots are chosen state by state, so that lanes cannot run side by side. The numbers of a state are copied to memory of their own, where a
column is a row of vectors: the loops over its entries use all lanes.
"""

from __future__ import annotations

from collections.abc import Callable

from catena.graph import SaddlePoint
from catena.native.functions import FLAGS, Lines
from catena.native.layout import ALIGN

#: Entries that one turn of an inner loop takes.
_TURN = 8

#: What the table tells of a system, in this order; then where each part of its memory begins [doubles].
_SIZES = ("unknowns", "constraints", "columns", "wide", "tall", "deep", "pivots", "result")


def structure(system: SaddlePoint, size: int) -> list[int]:
    """Return the table of a system: its sizes, then where each part of its memory begins."""
    n, m = system.unknowns, system.constraints
    starts, start = [], 0
    for count in system.parts.values():
        starts.append(start)
        start += count
    return [n, m, system.columns, *system.padded, min(n, m), system.entries * size, *starts]


class _Code(Lines):
    """Writes a function of loops and choices; variables live in memory, from where the optimiser takes them to registers."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: list[str] = []
        self._labels = 0

    def variable(self, kind: str, value: str) -> str:
        """Return a new variable with a value."""
        name = f"%v{len(self.variables)}"
        self.variables.append(f"  {name} = alloca {kind}")
        self.set(kind, name, value)
        return name

    def get(self, kind: str, variable: str) -> str:
        return self.new(f"load {kind}, ptr {variable}")

    def set(self, kind: str, variable: str, value: str) -> None:
        self.append(f"  store {kind} {value}, ptr {variable}")

    def label(self) -> str:
        self._labels += 1
        return f"at{self._labels}"

    def loop(self, start: str, stop: str, body: Callable[[str], None], step: int = 1) -> None:
        """Write a loop of a counter from start up to stop, which is not reached; with a negative step down to stop, which is."""
        head, inside, done = self.label(), self.label(), self.label()
        counter = self.variable("i64", start)
        self += [f"  br label %{head}", f"{head}:"]
        i = self.get("i64", counter)
        more = self.new(f"icmp {'slt' if step > 0 else 'sge'} i64 {i}, {stop}")
        self += [f"  br i1 {more}, label %{inside}, label %{done}", f"{inside}:"]
        body(i)
        self.set("i64", counter, self.plus(i, str(step)))
        self += [f"  br label %{head}", f"{done}:"]

    def when(self, condition: str, then: Callable[[], None]) -> None:
        """Write what is done where a condition holds."""
        inside, done = self.label(), self.label()
        self += [f"  br i1 {condition}, label %{inside}, label %{done}", f"{inside}:"]
        then()
        self += [f"  br label %{done}", f"{done}:"]

    def plus(self, a: str, b: str) -> str:
        return self.new(f"add i64 {a}, {b}")

    def row(self, base: str, i: str, stride: str) -> str:
        """Return the pointer to a row of doubles."""
        return self.at(base, self.new(f"mul i64 {i}, {stride}"))

    def at(self, base: str, i: str) -> str:
        return self.new(f"getelementptr double, ptr {base}, i64 {i}")

    def load(self, base: str, i: str) -> str:
        return self.get("double", self.at(base, i))

    def store(self, value: str, base: str, i: str) -> None:
        self.set("double", self.at(base, i), value)

    def op(self, name: str, a: str, b: str) -> str:
        return self.new(f"{name} {FLAGS} double {a}, {b}")

    def dot(self, a: str, b: str, count: str) -> str:
        return self.new(f"call double @saddle_dot(ptr {a}, ptr {b}, i64 {count})")

    def subtract(self, y: str, x: str, factor: str, count: str) -> None:
        """Write y - factor x to y."""
        self.append(f"  call void @saddle_subtract(ptr {y}, ptr {x}, double {factor}, i64 {count})")

    def whole(self, count: str) -> str:
        """Return a count rounded up to whole turns."""
        return self.new(f"and i64 {self.plus(count, str(_TURN - 1))}, {-_TURN}")

    def root(self, x: str) -> str:
        return self.new(f"call double @llvm.sqrt.f64(double {x})")

    def function(self, head: str, result: str = "ret void") -> str:
        return "\n".join((f"\ndefine {head} noinline nounwind {{", *self.variables, *self, f"  {result}\n}}\n"))


def _inner(lanes: int) -> str:
    """Return the IR of the two inner loops: a product of two rows, and a row less a multiple of another."""
    lanes = min(lanes, _TURN)
    vector, together = f"<{lanes} x double>", range(_TURN // lanes)

    def entries(code: _Code, base: str, i: str) -> list[str]:
        return [code.at(base, code.plus(i, str(lanes * part))) for part in together]

    code = _Code()
    sums = [code.variable(vector, "zeroinitializer") for _ in together]

    def add(i: str) -> None:
        for sum_, a, b in zip(sums, entries(code, "%a", i), entries(code, "%b", i), strict=True):
            x, y = (code.new(f"load {vector}, ptr {place}, align 8") for place in (a, b))
            product = code.new(f"fmul {FLAGS} {vector} {x}, {y}")
            code.set(vector, sum_, code.new(f"fadd {FLAGS} {vector} {code.get(vector, sum_)}, {product}"))

    code.loop("0", "%count", add, _TURN)
    total = code.get(vector, sums[0])
    for sum_ in sums[1:]:
        total = code.new(f"fadd {vector} {total}, {code.get(vector, sum_)}")
    result = code.new(f"extractelement {vector} {total}, i32 0")
    for lane in range(1, lanes):
        result = code.new(f"fadd double {result}, {code.new(f'extractelement {vector} {total}, i32 {lane}')}")
    dot = code.function("internal double @saddle_dot(ptr %a, ptr %b, i64 %count)", f"ret double {result}")

    code = _Code()
    one = code.new(f"insertelement {vector} poison, double %factor, i32 0")
    factor = code.new(f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def subtract(i: str) -> None:
        for y, x in zip(entries(code, "%y", i), entries(code, "%x", i), strict=True):
            product = code.new(f"fmul {FLAGS} {vector} {factor}, {code.new(f'load {vector}, ptr {x}, align 8')}")
            left = code.new(f"fsub {FLAGS} {vector} {code.new(f'load {vector}, ptr {y}, align 8')}, {product}")
            code.append(f"  store {vector} {left}, ptr {y}, align 8")

    code.loop("0", "%count", subtract, _TURN)
    return dot + code.function("internal void @saddle_subtract(ptr %y, ptr %x, double %factor, i64 %count)")


def saddle_point(name: str, lanes: int) -> str:
    """Return the IR of the block of saddle points, a module of its own.

    Its row of places holds the table of `structure`, the places of the operands, and that of the slots of its result, before those to work
    in; its numbers are 1, `UNDETERMINED` and `ROUNDING`.
    """
    code = _Code()
    new, loop, load, store, row, at, op = code.new, code.loop, code.load, code.store, code.row, code.at, code.op
    parts = list(SaddlePoint(1, 1, 1).parts)

    def entry(i: str) -> str:
        place = new(f"load i32, ptr {new(f'getelementptr i32, ptr %places, i64 {i}')}, !invariant.load !2")
        return new(f"zext i32 {place} to i64")

    n, m, k, wide, tall, deep, pivots, result = (entry(str(i)) for i in range(len(_SIZES)))
    starts = [entry(str(len(_SIZES) + i)) for i in range(len(parts))]
    reads = str(len(_SIZES) + len(parts))
    one, small, rounding = (new(f"load double, ptr {at('%numbers', i)}, !invariant.load !2") for i in ("0", "1", "2"))
    triangle = new(f"lshr i64 {new(f'mul i64 {n}, {code.plus(n, str(1))}')}, 1")
    operands = code.plus(triangle, "2")
    for a, b in ((m, n), (m, k), (n, k)):
        operands = code.plus(operands, new(f"mul i64 {a}, {b}"))
    written = new(f"getelementptr i8, ptr %scratch, i64 {entry(code.plus(operands, reads))}")
    memory = new(f"getelementptr i8, ptr {written}, i64 {result}")
    J, g, R, y, M, f, H, z, x, some_row, some, multipliers, squares, diagonal, order = (at(memory, start) for start in starts)
    end = at(order, wide)

    def index(i: str) -> str:
        """Return the unknown in a place of the order."""
        return new(f"load i64, ptr {at(order, i)}")

    def copy(y: str, x: str, count: str) -> None:
        loop("0", count, lambda i: store(load(x, i), y, i))

    def clear(y: str, count: str) -> None:
        loop("0", count, lambda i: store("0.0", y, i))

    def state(lane: str) -> None:
        own = at("%scratch", lane)
        following = code.variable("i64", reads)

        def operand() -> str:
            i = code.get("i64", following)
            code.set("i64", following, code.plus(i, "1"))
            return new(f"load double, ptr {new(f'getelementptr i8, ptr {own}, i64 {entry(i)}')}")

        def columns(base: str, stride: str, length: str, count: str) -> None:
            def column(c: str) -> None:
                start = row(base, c, stride)
                loop("0", length, lambda i: store(operand(), start, i))

            loop("0", count, column)

        # copied: what is not, is zero
        whole = new(f"sub i64 {new(f'ptrtoint ptr {end} to i64')}, {new(f'ptrtoint ptr {memory} to i64')}")
        clear(memory, new(f"lshr i64 {whole}, 3"))
        columns(J, tall, m, n)
        columns(g, tall, m, k)

        def triangle_row(i: str) -> None:
            def entry_of(j: str) -> None:
                value = operand()
                store(value, row(M, i, wide), j)
                store(value, row(M, j, wide), i)

            loop("0", code.plus(i, "1"), entry_of)

        loop("0", n, triangle_row)
        columns(f, wide, n, k)
        tolerance, most = operand(), operand()

        # the columns of J, the longest first, made orthogonal to each other
        longest = code.variable("double", one)

        def begin(j: str) -> None:
            code.append(f"  store i64 {j}, ptr {at(order, j)}")
            column = row(J, j, tall)
            square = code.dot(column, column, tall)
            store(square, squares, j)
            code.when(
                new(f"fcmp ogt double {square}, {code.get('double', longest)}"), lambda: code.set("double", longest, square)
            )

        loop("0", n, begin)
        least_square = op("fmul", op("fmul", tolerance, tolerance), code.get("double", longest))
        rank = code.variable("i64", "0")

        def pivot(s: str) -> None:
            best, place = code.variable("double", "0.0"), code.variable("i64", s)

            def compare(p: str) -> None:
                square = load(squares, index(p))

                def better() -> None:
                    code.set("double", best, square)
                    code.set("i64", place, p)

                code.when(new(f"fcmp ogt double {square}, {code.get('double', best)}"), better)

            loop(s, n, compare)
            code.when(new(f"fcmp ogt double {code.get('double', best)}, {least_square}"), lambda: take(s, code.get("i64", place)))

        def take(s: str, place: str) -> None:
            j, other = index(place), index(s)
            code.append(f"  store i64 {j}, ptr {at(order, s)}")
            code.append(f"  store i64 {other}, ptr {at(order, place)}")
            column, on = row(J, j, tall), row(R, j, deep)

            def again(t: str) -> None:
                before = row(J, index(t), tall)
                share = code.dot(before, column, tall)
                code.subtract(column, before, share, tall)
                store(op("fadd", load(on, t), share), on, t)

            loop("0", s, again)
            length = code.root(code.dot(column, column, tall))
            store(length, on, s)
            store(length, diagonal, s)
            inverse = op("fdiv", one, length)
            loop("0", m, lambda i: store(op("fmul", load(column, i), inverse), column, i))

            def rest(p: str) -> None:
                i = index(p)
                left = row(J, i, tall)
                share = code.dot(column, left, tall)

                def less() -> None:  # in the blocks of other loops there is nothing to do
                    store(share, row(R, i, deep), s)
                    code.subtract(left, column, share, tall)
                    store(code.dot(left, left, tall), squares, i)

                code.when(new(f"fcmp une double {share}, 0.0"), less)

            loop(code.plus(s, "1"), n, rest)

            def right(c: str) -> None:
                left = row(g, c, tall)
                share = code.dot(column, left, tall)
                store(share, row(y, c, deep), s)
                code.subtract(left, column, share, tall)

            loop("0", k, right)
            code.set("i64", rank, code.plus(s, "1"))

        def step(s: str) -> None:
            # a step that takes no pivot is the last: those after it find the rank behind them
            fits = new(f"icmp eq i64 {s}, {code.get('i64', rank)}")
            wanted = new(f"fcmp olt double {new(f'sitofp i64 {s} to double')}, {most}")
            code.when(new(f"and i1 {fits}, {wanted}"), lambda: pivot(s))

        loop("0", pivots, step)
        r = code.get("i64", rank)
        last = code.plus(r, "-1")
        free = new(f"sub i64 {n}, {r}")

        # what depends, by what does not: R11^-1 R12, and for the right-hand sides
        def back(column: str) -> None:
            def substitute(s: str) -> None:
                value = op("fdiv", load(column, s), load(diagonal, s))
                code.subtract(column, row(R, index(s), deep), value, code.whole(code.plus(s, "1")))
                store(value, column, s)

            loop(last, "0", substitute, -1)

        loop(r, n, lambda p: back(row(R, index(p), deep)))
        loop("0", k, lambda c: back(row(y, c, deep)))

        # the form on the unknowns that do not depend
        def reduced(vector: str, column: str, first: str, write: Callable[[str, str], None]) -> None:
            """Write N^T (vector - M column) for the unknowns from a place on."""

            def shift(s: str) -> None:
                share = load(column, s)
                some = new(f"fcmp une double {share}, 0.0")
                code.when(some, lambda: code.subtract(vector, row(M, index(s), wide), share, wide))

            loop("0", r, shift)
            loop("0", r, lambda s: store(load(vector, index(s)), some, s))

            def on(b: str) -> None:
                i = index(code.plus(r, b))
                write(b, op("fsub", load(vector, i), code.dot(row(R, i, deep), some, deep)))

            loop(first, free, on)

        def form(a: str) -> None:
            i = index(code.plus(r, a))
            copy(some_row, row(M, i, wide), wide)
            reduced(some_row, row(R, i, deep), a, lambda b, value: store(value, row(H, b, wide), a))

        loop("0", free, form)

        def load_of(c: str) -> None:
            copy(some_row, row(f, c, wide), wide)
            own = row(z, c, wide)
            reduced(some_row, row(y, c, deep), "0", lambda b, value: store(value, own, b))

        loop("0", k, load_of)

        # its factors; the squares of lengths are not needed any more, and make room for the inverse pivots
        undetermined = code.variable("double", "0.0")

        def product(a: str, b: str, count: str) -> str:
            total = code.variable("double", "0.0")
            loop("0", count, lambda i: code.set("double", total, op("fadd", code.get("double", total), op("fmul", load(a, i), load(b, i)))))
            return code.get("double", total)

        left_over = code.variable("double", "0.0")

        def longest_left(p: str) -> None:
            square = load(squares, index(p))
            more = new(f"fcmp ogt double {square}, {code.get('double', left_over)}")
            code.when(more, lambda: code.set("double", left_over, square))

        loop(r, n, longest_left)
        most_mass = code.variable("double", "0.0")

        def heavier(i: str) -> None:
            mass = load(row(M, i, wide), i)
            more = new(f"fcmp ogt double {mass}, {code.get('double', most_mass)}")
            code.when(more, lambda: code.set("double", most_mass, mass))

        loop("0", n, heavier)
        nothing_at_all = op("fmul", rounding, code.get("double", most_mass))

        def factor(a: str) -> None:
            own = row(H, a, wide)

            def entry_of(c: str) -> None:
                other = row(H, c, wide)
                store(op("fmul", op("fsub", load(own, c), product(own, other, c)), load(squares, c)), own, c)

            loop("0", a, entry_of)
            whole_pivot = load(own, a)
            left = op("fsub", whole_pivot, product(own, own, a))
            in_part = new(f"fcmp ole double {left}, {op('fmul', small, whole_pivot)}")
            nothing = new(f"or i1 {in_part}, {new(f'fcmp ole double {left}, {nothing_at_all}')}")
            inverse = op("fdiv", one, code.root(left))
            store(new(f"select i1 {nothing}, double 0.0, double {inverse}"), squares, a)
            code.when(nothing, lambda: code.set("double", undetermined, op("fadd", code.get("double", undetermined), one)))

        loop("0", free, factor)

        def solve(c: str) -> None:
            own, known = row(z, c, wide), row(y, c, deep)

            def forward(a: str) -> None:
                store(op("fmul", op("fsub", load(own, a), product(row(H, a, wide), own, a)), load(squares, a)), own, a)

            def backward(a: str) -> None:
                value = op("fmul", load(own, a), load(squares, a))
                store(value, own, a)
                up = row(H, a, wide)
                loop("0", a, lambda b: store(op("fsub", load(own, b), op("fmul", load(up, b), value)), own, b))

            loop("0", free, forward)
            loop(code.plus(free, "-1"), "0", backward, -1)

            def free_unknown(a: str) -> None:
                i = index(code.plus(r, a))
                store(load(own, a), x, i)
                code.subtract(known, row(R, i, deep), load(own, a), deep)

            loop("0", free, free_unknown)
            loop("0", r, lambda s: store(load(known, s), x, index(s)))
            first = row(written, new(f"mul i64 {c}, {n}"), str(lanes))

            # the shortest multipliers of what is left of f
            copy(some_row, row(f, c, wide), wide)

            def unknown(j: str) -> None:
                value = load(x, j)
                code.subtract(some_row, row(M, j, wide), value, wide)
                store(value, first, code.plus(new(f"mul i64 {j}, {lanes}"), lane))

            loop("0", n, unknown)
            clear(some, deep)
            clear(multipliers, tall)

            def multiplier(s: str) -> None:
                j = index(s)
                known = code.dot(row(R, j, deep), some, code.whole(code.plus(s, "1")))
                value = op("fdiv", op("fsub", load(some_row, j), known), load(diagonal, s))
                store(value, some, s)
                code.subtract(multipliers, row(J, j, tall), new(f"fneg double {value}"), tall)

            loop("0", r, multiplier)
            after = new(f"mul i64 {k}, {n}")
            second = code.plus(after, new(f"mul i64 {k}, {m}"))
            for start, column in ((after, multipliers), (second, row(g, c, tall))):
                to = row(written, code.plus(start, new(f"mul i64 {c}, {m}")), str(lanes))
                loop("0", m, lambda i, to=to, column=column: store(load(column, i), to, code.plus(new(f"mul i64 {i}, {lanes}"), lane)))

        loop("0", k, solve)

        # how sure the rank is
        root = code.root(code.get("double", longest))
        any_pivot = new(f"icmp sgt i64 {r}, 0")
        safe = new(f"select i1 {any_pivot}, i64 {last}, i64 0")
        least = new(f"select i1 {any_pivot}, double {op('fdiv', load(diagonal, safe), root)}, double {one}")
        ahead = new(f"mul i64 {k}, {code.plus(n, new(f'shl i64 {m}, 1'))}")
        told = new(f"sitofp i64 {r} to double"), least, op("fdiv", code.root(code.get("double", left_over)), root)
        for i, value in enumerate((*told, code.get("double", undetermined))):
            to = row(written, code.plus(ahead, str(i)), str(lanes))
            store(value, to, lane)

    loop("0", str(lanes), state)
    read = "ptr noalias readonly"
    head = f"void @{name}(ptr noalias %scratch, {read} %places, {read} %numbers, {read} %data)"
    body = code.function(head).replace("noinline nounwind {", f"noinline nounwind alignstack({ALIGN}) {{")
    return "".join(("declare double @llvm.sqrt.f64(double)\n", _inner(lanes), body, "\n!2 = !{}\n"))
