"""The lines of a function in LLVM IR: values, entries of arrays, loops and choices, as all functions write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catena.native.llvm.layout import ALIGN

#: What may be done to arithmetic: signs of zeros may be lost, reciprocals shared, products and sums fused.
FLAGS = "nsz arcp contract"

#: The parameters of a block.
BLOCK = "ptr noalias %scratch, ptr noalias readonly %places, ptr noalias readonly %numbers, ptr noalias readonly %data"


class Lines(list[str]):
    """The lines of a function; `new` adds one and returns the name of its value.

    Arrays have entries of one `kind`, vectors of lanes unless given. Variables live in memory, from where the optimiser takes them to
    registers.
    """

    def __init__(self, lanes: int, kind: str = "") -> None:
        super().__init__()
        self.lanes, self.vector = lanes, f"<{lanes} x double>"
        self.kind = kind or self.vector
        self.aligned = f"align {8 if kind else min(8 * lanes, ALIGN)}"
        self.variables: list[str] = []
        self._values = self._labels = 0

    def new(self, text: str) -> str:
        """Return the name of a new value."""
        self._values += 1
        self.append(f"  %t{self._values} = {text}")
        return f"%t{self._values}"

    def function(self, head: str, attributes: str = "nounwind", result: str = "ret void") -> str:
        """Return the function of these lines."""
        return "\n".join((f"\ndefine {head} {attributes} {{", *self.variables, *self, f"  {result}\n}}\n"))

    # --- integers and arithmetic

    def plus(self, a: str, b: str | int) -> str:
        """Return a sum of integers."""
        return self.new(f"add i64 {a}, {b}")

    def times(self, a: str, b: str | int) -> str:
        """Return a product of integers."""
        return self.new(f"mul i64 {a}, {b}")

    def least(self, a: str, b: str | int) -> str:
        """Return the smaller of two integers."""
        return self.new(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def op(self, name: str, a: str, b: str) -> str:
        """Return the result of an instruction on entries."""
        return self.new(f"{name} {FLAGS} {self.kind} {a}, {b}")

    def broadcast(self, number: str) -> str:
        """Return a number in all lanes."""
        one = self.new(f"insertelement {self.vector} poison, double {number}, i32 0")
        return self.new(f"shufflevector {self.vector} {one}, {self.vector} poison, <{self.lanes} x i32> zeroinitializer")

    # --- memory

    def variable(self, kind: str, value: str) -> str:
        """Return a new variable with a value."""
        name = f"%v{len(self.variables)}"
        self.variables.append(f"  {name} = alloca {kind}")
        self.set(kind, name, value)
        return name

    def get(self, kind: str, place: str) -> str:
        return self.new(f"load {kind}, ptr {place}")

    def set(self, kind: str, place: str, value: str) -> None:
        self.append(f"  store {kind} {value}, ptr {place}")

    def at(self, base: str, i: str | int, kind: str = "") -> str:
        """Return the pointer to an entry of an array."""
        return self.new(f"getelementptr {kind or self.kind}, ptr {base}, i64 {i}")

    def load(self, base: str, i: str | int = 0) -> str:
        return self.new(f"load {self.kind}, ptr {self.at(base, i)}, {self.aligned}")

    def store(self, value: str, base: str, i: str | int = 0) -> None:
        self.append(f"  store {self.kind} {value}, ptr {self.at(base, i)}, {self.aligned}")

    def entry(self, table: str, i: int, kind: str = "ptr") -> str:
        """Return an entry of a table that never changes, 8 bytes each."""
        return self.new(f"load {kind}, ptr {self.at(table, i, 'i64')}, !invariant.load !2")

    def integer(self, table: str, at: str | int) -> str:
        """Return an entry of a table of 32-bit integers."""
        place = self.at(table, at, "i32")
        return self.new(f"zext i32 {self.new(f'load i32, ptr {place}, !invariant.load !2')} to i64")

    def place(self, i: str | int, table: str = "%places", memory: str = "%scratch") -> str:
        """Return the pointer to what an entry of a table tells the place of."""
        return self.at(memory, self.integer(table, i), "i8")

    def gathered(self, places: Sequence[str]) -> str:
        """Return the vector of doubles, one per lane."""
        packed = "poison"
        for lane, place in enumerate(places):
            packed = self.new(f"insertelement {self.vector} {packed}, double {self.get('double', place)}, i32 {lane}")
        return packed

    def scatter(self, vector: str, places: Sequence[str]) -> None:
        """Write the doubles of a vector, one per lane."""
        for lane, place in enumerate(places):
            self.set("double", place, self.new(f"extractelement {self.vector} {vector}, i32 {lane}"))

    # --- loops and choices

    def label(self) -> str:
        self._labels += 1
        return f"at{self._labels}"

    def loop(self, start: str, stop: str, body: Callable[[str], str | None], step: int = 1) -> str:
        """Write a loop of a counter from start up to stop, which is not reached; with a negative step down to stop, which is.

        The body may return another step. The counter, a variable, comes back.
        """
        head, inside, done = self.label(), self.label(), self.label()
        counter = self.variable("i64", start)
        self += [f"  br label %{head}", f"{head}:"]
        i = self.get("i64", counter)
        more = self.new(f"icmp {'slt' if step > 0 else 'sge'} i64 {i}, {stop}")
        self += [f"  br i1 {more}, label %{inside}, label %{done}", f"{inside}:"]
        self.set("i64", counter, self.plus(i, body(i) or step))
        self += [f"  br label %{head}", f"{done}:"]
        return counter

    def repeat(self, body: Callable[[], str]) -> None:
        """Write what is done once, and again as long as the condition holds that the body returns."""
        again, done = self.label(), self.label()
        self += [f"  br label %{again}", f"{again}:"]
        self += [f"  br i1 {body()}, label %{again}, label %{done}", f"{done}:"]

    def walk(self, start: str, stop: str, size: str, body: Callable[[str], None]) -> None:
        """Write a loop of a pointer from start on to stop, which is not reached, by so many bytes; once at least."""
        pointer = self.variable("ptr", start)

        def one() -> str:
            here = self.get("ptr", pointer)
            body(here)
            following = self.at(here, size, "i8")
            self.set("ptr", pointer, following)
            return self.new(f"icmp ult ptr {following}, {stop}")

        self.repeat(one)

    def end_of_set(self, first: str, count: str, scratch: str, size: str, streams: int) -> str:
        """Return where the scratch memories of a set end: as many groups of lanes as there are streams, or as are left from `first` on."""
        left = self.new(f"sdiv i64 {self.plus(self.new(f'sub i64 {count}, {first}'), self.lanes - 1)}, {self.lanes}")
        return self.at(scratch, self.times(self.least(left, streams), size), "i8")

    def when(self, condition: str, then: Callable[[], object], otherwise: Callable[[], object] | None = None, weights: str = "") -> None:
        """Write what is done where a condition holds, and elsewhere; `weights` tell how often, by metadata."""
        inside, other, done = self.label(), self.label(), self.label()
        self += [f"  br i1 {condition}, label %{inside}, label %{other if otherwise else done}{weights}", f"{inside}:"]
        then()
        if otherwise:
            self += [f"  br label %{done}", f"{other}:"]
            otherwise()
        self += [f"  br label %{done}", f"{done}:"]
