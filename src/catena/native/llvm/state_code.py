"""Functions in LLVM IR that work on one state after the other: rows of doubles, on which all lanes work together."""

from __future__ import annotations

from collections.abc import Callable

from catena.native.llvm.layout import ALIGN
from catena.native.llvm.lines import BLOCK, FLAGS, Lines

#: Entries that one turn of an inner loop takes; rows are padded to whole turns.
TURN = 8


class StateCode(Lines):
    """Writes a function on rows of doubles."""

    def __init__(self, lanes: int) -> None:
        super().__init__(min(lanes, TURN), "double")

    def raise_to(self, variable: str, value: str) -> None:
        """Write a double to a variable that is smaller."""
        larger = self.new(f"fcmp ogt double {value}, {self.get('double', variable)}")
        self.when(larger, lambda: self.set("double", variable, value))

    def whole(self, count: str) -> str:
        """Return a count rounded up to whole turns."""
        return self.new(f"and i64 {self.plus(count, TURN - 1)}, {-TURN}")

    def row(self, base: str, i: str, stride: str | int) -> str:
        """Return the pointer to a row of doubles."""
        return self.at(base, self.times(i, stride))

    def root(self, x: str) -> str:
        return self.new(f"call double @llvm.sqrt.f64(double {x})")

    def copy_row(self, y: str, x: str, count: str) -> None:
        self.loop("0", count, lambda i: self.store(self.load(x, i), y, i))

    def clear_row(self, y: str, count: str) -> None:
        self.loop("0", count, lambda i: self.store("0.0", y, i))

    def product(self, a: str, b: str, count: str) -> str:
        """Return the product of two rows of any length, entry by entry."""
        total = self.variable("double", "0.0")

        def add(i: str) -> None:
            before = self.get("double", total)
            self.set("double", total, self.op("fadd", before, self.op("fmul", self.load(a, i), self.load(b, i))))

        self.loop("0", count, add)
        return self.get("double", total)

    def dot(self, a: str, b: str, count: str) -> str:
        """Return the product of two rows of whole turns."""
        return self.new(f"call double @saddle_dot(ptr {a}, ptr {b}, i64 {count})")

    def subtract(self, y: str, x: str, factor: str, count: str) -> None:
        """Write y - factor x to y, rows of whole turns."""
        self.append(f"  call void @saddle_subtract(ptr {y}, ptr {x}, double {factor}, i64 {count})")


class SystemCode(StateCode):
    """Writes the function that solves a system of a graph, one state after the other."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self.lane_count = lanes
        self.one = self.entry("%numbers", 0, "double")

    def place_result(self, first: int, operands: str, entries: str) -> None:
        """Find the result and the memory after it, behind the places of the operands, which begin with `first`."""
        self.first, self.last, self.entries = first, self.plus(operands, first), entries
        self.result = self.place(self.last)
        self.memory = self.row(self.result, entries, self.lane_count)

    def slot(self, entry: str, base: str = "") -> str:
        """Return the slot of an entry of the result, or of those from a slot on."""
        return self.row(base or self.result, entry, self.lane_count)

    def operands(self, slots: str) -> Callable[[], str]:
        """Return what loads one operand of a state after the other."""
        following = self.variable("i64", str(self.first))

        def operand() -> str:
            i = self.get("i64", following)
            self.set("i64", following, self.plus(i, 1))
            return self.load(self.place(i, memory=slots))

        return operand

    def state(self, lane: str) -> None:
        """Solve the system of one state."""
        raise NotImplementedError

    def repeated(self) -> str:
        """Return which lanes repeat the one before them in all operands, as those past the last state do."""
        count = self.lane_count
        bits, truths = f"<{count} x i64>", f"<{count} x i1>"
        before = ", ".join(f"i32 {max(lane - 1, 0)}" for lane in range(count))
        same = self.variable(truths, f"<i1 false, {', '.join(['i1 true'] * (count - 1))}>")

        def compare(i: str) -> None:
            here = self.new(f"load {bits}, ptr {self.place(i)}, align {min(8 * count, ALIGN)}")
            there = self.new(f"shufflevector {bits} {here}, {bits} poison, <{count} x i32> <{before}>")
            both = self.new(f"and {truths} {self.get(truths, same)}, {self.new(f'icmp eq {bits} {here}, {there}')}")
            self.set(truths, same, both)

        self.loop(str(self.first), self.last, compare)
        return self.get(truths, same)

    def lane(self, lane: str, repeated: str) -> None:
        """Solve the system of one state, or copy the result of the state before."""
        same = self.new(f"extractelement <{self.lane_count} x i1> {repeated}, i64 {lane}")

        def copy(entry: str) -> None:
            slot = self.slot(entry)
            self.store(self.load(slot, self.plus(lane, -1)), slot, lane)

        self.when(same, lambda: self.loop("0", self.entries, copy), lambda: self.state(lane))

    def block(self, name: str) -> str:
        """Return the IR of the block, a module of its own."""
        repeated = self.repeated()
        self.loop("0", str(self.lane_count), lambda lane: self.lane(lane, repeated))
        declared = "".join(f"declare double @llvm.{function}.f64(double)\n" for function in ("sqrt", "fabs"))
        rows = _dot(StateCode(self.lane_count)) + _subtract(StateCode(self.lane_count))
        return declared + rows + self.function(f"void @{name}({BLOCK})", f"noinline nounwind alignstack({ALIGN})") + "\n!2 = !{}\n"


def _vectors(code: StateCode, base: str, i: str) -> list[str]:
    """Return the pointers to the vectors of a turn."""
    return [code.at(base, code.plus(i, start)) for start in range(0, TURN, code.lanes)]


def _dot(code: StateCode) -> str:
    vector = code.vector
    sums = [code.variable(vector, "zeroinitializer") for _ in range(0, TURN, code.lanes)]

    def add(i: str) -> None:
        for sum_, a, b in zip(sums, _vectors(code, "%a", i), _vectors(code, "%b", i), strict=True):
            x, y = (code.new(f"load {vector}, ptr {place}, align 8") for place in (a, b))
            product = code.new(f"fmul {FLAGS} {vector} {x}, {y}")
            code.set(vector, sum_, code.new(f"fadd {FLAGS} {vector} {code.get(vector, sum_)}, {product}"))

    code.loop("0", "%count", add, TURN)
    total = code.get(vector, sums[0])
    for sum_ in sums[1:]:
        total = code.new(f"fadd {vector} {total}, {code.get(vector, sum_)}")
    result = code.new(f"extractelement {vector} {total}, i32 0")
    for lane in range(1, code.lanes):
        result = code.new(f"fadd double {result}, {code.new(f'extractelement {vector} {total}, i32 {lane}')}")
    return code.function("internal double @saddle_dot(ptr %a, ptr %b, i64 %count)", "noinline nounwind", f"ret double {result}")


def _subtract(code: StateCode) -> str:
    vector, factor = code.vector, code.broadcast("%factor")

    def subtract(i: str) -> None:
        for y, x in zip(_vectors(code, "%y", i), _vectors(code, "%x", i), strict=True):
            product = code.new(f"fmul {FLAGS} {vector} {factor}, {code.new(f'load {vector}, ptr {x}, align 8')}")
            rest = code.new(f"fsub {FLAGS} {vector} {code.new(f'load {vector}, ptr {y}, align 8')}, {product}")
            code.append(f"  store {vector} {rest}, ptr {y}, align 8")

    code.loop("0", "%count", subtract, TURN)
    return code.function("internal void @saddle_subtract(ptr %y, ptr %x, double %factor, i64 %count)", "noinline nounwind")
