"""The lines of a function in LLVM IR, and what all functions write alike."""

from __future__ import annotations

from catena.native.llvm.layout import ALIGN

#: What may be done to arithmetic: signs of zeros may be lost, reciprocals shared, products and sums fused.
FLAGS = "nsz arcp contract"


class Lines(list[str]):
    """The lines of a function on vectors of lanes; `new` adds one and returns the name of its value."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes, self.vector, self.aligned = lanes, f"<{lanes} x double>", f"align {min(8 * lanes, ALIGN)}"
        self._values = 0

    def new(self, text: str) -> str:
        """Return the name of a new value."""
        self._values += 1
        self.append(f"  %t{self._values} = {text}")
        return f"%t{self._values}"

    def plus(self, a: str, b: str | int) -> str:
        """Return a sum of integers."""
        return self.new(f"add i64 {a}, {b}")

    def integer(self, table: str, at: str | int) -> str:
        """Return an entry of a table of 32-bit integers."""
        place = self.new(f"getelementptr i32, ptr {table}, i64 {at}")
        return self.new(f"zext i32 {self.new(f'load i32, ptr {place}, !invariant.load !2')} to i64")

    def broadcast(self, number: str) -> str:
        """Return a number in all lanes."""
        one = self.new(f"insertelement {self.vector} poison, double {number}, i32 0")
        return self.new(f"shufflevector {self.vector} {one}, {self.vector} poison, <{self.lanes} x i32> zeroinitializer")
