"""Functions in LLVM IR that work on one state after the other: loops, choices, and rows of doubles, on which all lanes work together."""

from __future__ import annotations

from collections.abc import Callable

from catena.native.llvm.layout import ALIGN
from catena.native.llvm.lines import FLAGS, Lines

#: Entries that one turn of an inner loop takes; rows are padded to whole turns.
TURN = 8


class StateCode(Lines):
    """Writes a function of loops and choices; variables live in memory, from where the optimiser takes them to registers."""

    def __init__(self, lanes: int) -> None:
        super().__init__(min(lanes, TURN))
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

    def raise_to(self, variable: str, value: str) -> None:
        """Write a double to a variable that is smaller."""
        larger = self.new(f"fcmp ogt double {value}, {self.get('double', variable)}")
        self.when(larger, lambda: self.set("double", variable, value))

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
        self.set("i64", counter, self.plus(i, step))
        self += [f"  br label %{head}", f"{done}:"]

    def when(self, condition: str, then: Callable[[], None]) -> None:
        """Write what is done where a condition holds."""
        inside, done = self.label(), self.label()
        self += [f"  br i1 {condition}, label %{inside}, label %{done}", f"{inside}:"]
        then()
        self += [f"  br label %{done}", f"{done}:"]

    def times(self, a: str, b: str | int) -> str:
        """Return a product of integers."""
        return self.new(f"mul i64 {a}, {b}")

    def whole(self, count: str) -> str:
        """Return a count rounded up to whole turns."""
        return self.new(f"and i64 {self.plus(count, TURN - 1)}, {-TURN}")

    def at(self, base: str, i: str | int) -> str:
        """Return the pointer to an entry of an array of doubles."""
        return self.new(f"getelementptr double, ptr {base}, i64 {i}")

    def row(self, base: str, i: str, stride: str | int) -> str:
        """Return the pointer to a row of doubles."""
        return self.at(base, self.times(i, stride))

    def load(self, base: str, i: str) -> str:
        return self.get("double", self.at(base, i))

    def store(self, value: str, base: str, i: str) -> None:
        self.set("double", self.at(base, i), value)

    def op(self, name: str, a: str, b: str) -> str:
        """Return the result of an instruction on doubles."""
        return self.new(f"{name} {FLAGS} double {a}, {b}")

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

    def function(self, head: str, attributes: str = "", result: str = "ret void") -> str:
        return "\n".join((f"\ndefine {head} noinline nounwind{attributes} {{", *self.variables, *self, f"  {result}\n}}\n"))


class SystemCode(StateCode):
    """Writes the function that solves a system of a graph, one state after the other."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self.lane_count = lanes
        self.one = self.number(0)

    def number(self, i: int) -> str:
        """Return one of the numbers of the call."""
        return self.new(f"load double, ptr {self.at('%numbers', i)}, !invariant.load !2")

    def place_result(self, first: int, operands: str, entries: str) -> None:
        """Find the result and the memory after it, behind the places of the operands, which begin with `first`."""
        self.first, self.last, self.entries = first, self.plus(operands, first), entries
        place = self.integer("%places", self.last)
        self.result = self.new(f"getelementptr i8, ptr %scratch, i64 {place}")
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
            place = self.new(f"getelementptr i8, ptr {slots}, i64 {self.integer('%places', i)}")
            return self.new(f"load double, ptr {place}")

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
            place = self.new(f"getelementptr i8, ptr %scratch, i64 {self.integer('%places', i)}")
            here = self.new(f"load {bits}, ptr {place}, align {min(8 * count, ALIGN)}")
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

        self.when(same, lambda: self.loop("0", self.entries, copy))
        self.when(self.new(f"xor i1 {same}, true"), lambda: self.state(lane))

    def block(self, name: str) -> str:
        """Return the IR of the block, a module of its own."""
        repeated = self.repeated()
        self.loop("0", str(self.lane_count), lambda lane: self.lane(lane, repeated))
        read = "ptr noalias readonly"
        head = f"void @{name}(ptr noalias %scratch, {read} %places, {read} %numbers, {read} %data)"
        declared = "".join(f"declare double @llvm.{function}.f64(double)\n" for function in ("sqrt", "fabs"))
        return "".join((declared, row_functions(self.lane_count), self.function(head, f" alignstack({ALIGN})"), "\n!2 = !{}\n"))


def row_functions(lanes: int) -> str:
    """Return the IR of the two inner loops, `dot` and `subtract`, in which all lanes work on one state."""
    return _dot(StateCode(lanes)) + _subtract(StateCode(lanes))


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
    return code.function("internal double @saddle_dot(ptr %a, ptr %b, i64 %count)", result=f"ret double {result}")


def _subtract(code: StateCode) -> str:
    vector, factor = code.vector, code.broadcast("%factor")

    def subtract(i: str) -> None:
        for y, x in zip(_vectors(code, "%y", i), _vectors(code, "%x", i), strict=True):
            product = code.new(f"fmul {FLAGS} {vector} {factor}, {code.new(f'load {vector}, ptr {x}, align 8')}")
            rest = code.new(f"fsub {FLAGS} {vector} {code.new(f'load {vector}, ptr {y}, align 8')}, {product}")
            code.append(f"  store {vector} {rest}, ptr {y}, align 8")

    code.loop("0", "%count", subtract, TURN)
    return code.function("internal void @saddle_subtract(ptr %y, ptr %x, double %factor, i64 %count)")
