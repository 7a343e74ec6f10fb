"""Writes the LLVM IR of a program: a function of straight-line code over lane vectors per block, under the driver that calls them.

Everything that may differ between two mechanisms of the same shape comes from tables, never from the code: sizes, slots, numbers, the
sequence of calls. So the code has no constants to relocate, and serves every such mechanism. In the code are the distances between slots
that are near each other in all calls of a block (`places`).
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.graph import ELIMINATE, LINEAR_SYSTEM, OPERATIONS, SADDLE_POINT, Block
from catena.graph.operations import CONDITION
from catena.native.llvm.eliminate import eliminate
from catena.native.llvm.functions import lanewise, sincos
from catena.native.llvm.layout import ALIGN, LIBRARY, Data
from catena.native.llvm.lines import BLOCK, FLAGS, Lines
from catena.native.llvm.places import Place


class _BlockWriter(Lines):
    """Writes one block: its values by local number, as vectors of doubles or of truth values, which are read from and written to places."""

    def __init__(self, block: Block, lanes: int, places: Sequence[Place]) -> None:
        super().__init__(lanes)
        self.block, self.places = block, places
        self.bases: dict[int | None, str] = {None: "%scratch"}
        self.truth = f"<{lanes} x i1>"
        self.numbers: dict[int, str] = {}
        self.conditions: dict[int, str] = {}
        self.pairs: dict[int, tuple[str, str]] = {}

    def slot(self, i: int) -> str:
        """Return the pointer to a place of the block."""
        entry, offset = self.places[i]
        if entry is not None and entry not in self.bases:
            self.bases[entry] = self.place(entry)
        return self.at(self.bases[entry], offset * 8 * self.lanes, "i8")

    def prepare(self, local: int) -> None:
        """Load an input or a number, where it is first used."""
        if local in self.numbers or local in self.conditions:
            return
        if local < self.block.inputs:
            self.numbers[local] = self.new(f"load {self.vector}, ptr {self.slot(local)}, {self.aligned}, !alias.scope !1")
        else:
            self.numbers[local] = self.broadcast(self.entry("%numbers", local - self.block.inputs, "double"))

    def number(self, local: int) -> str:
        """Return the vector of doubles of a local, 1 or 0 for a condition."""
        if local not in self.numbers:
            self.numbers[local] = self.new(f"uitofp {self.truth} {self.conditions[local]} to {self.vector}")
        return self.numbers[local]

    def condition(self, local: int) -> str:
        """Return the vector of truth values of a local: a double holds where it is not 0."""
        if local not in self.conditions:
            self.conditions[local] = self.new(f"fcmp une {self.vector} {self.number(local)}, zeroinitializer")
        return self.conditions[local]

    def compute(self, local: int, op: str, operands: Sequence[int]) -> None:
        """Write an operation as the table of operations says."""
        for operand in operands:
            self.prepare(operand)
        operation = OPERATIONS[op]
        given = [self.condition(i) if type_ is CONDITION else self.number(i) for i, type_ in zip(operands, operation.operands, strict=True)]
        arguments = ", ".join(f"{self.vector} {x}" for x in given)
        if operation.llvm == "@sincos":
            value = self.sincos(operands[0])[op == "cos"]
        elif operation.llvm.startswith("@llvm."):
            value = self.new(f"call nsz {self.vector} {operation.llvm}.v{self.lanes}f64({arguments})")
        elif operation.llvm.startswith("@"):
            entry = self.at("%data", LIBRARY.index(op), "ptr")
            value = self.new(f"call {self.vector} {operation.llvm}(ptr {entry}, {arguments})")
        else:
            true = f"<{', '.join(['i1 true'] * self.lanes)}>"
            value = self.new(operation.llvm.format(*given, flags=FLAGS, number=self.vector, condition=self.truth, true=true))
        (self.conditions if operation.result is CONDITION else self.numbers)[local] = value

    def sincos(self, argument: int) -> tuple[str, str]:
        """Return sine and cosine of a local, which are computed together."""
        if argument not in self.pairs:
            both = f"{{ {self.vector}, {self.vector} }}"
            pair = self.new(f"call {both} @sincos_once({self.vector} {self.number(argument)}, ptr %data)")
            self.pairs[argument] = self.new(f"extractvalue {both} {pair}, 0"), self.new(f"extractvalue {both} {pair}, 1")
        return self.pairs[argument]


def _write_block(name: str, block: Block, lanes: int, places: Sequence[Place], quick: bool) -> str:
    """Return the function of a block."""
    writer = _BlockWriter(block, lanes, places)
    base = block.inputs + block.numbers
    written: dict[int, list[tuple[int, int]]] = {}  # the runs that a local is written to, and where in them
    for run, (start, stop) in enumerate(block.runs):
        for k in range(start, stop):
            written.setdefault(block.results[k], []).append((run, k - start))
    # where runs begin is read before anything is written: after it, such a read takes many times as long
    first = [writer.slot(block.inputs + run) for run in range(len(block.starts) if block.results else 0)]
    for local in (*range(base, base + len(block.nodes)), *(local for local in written if local < base)):
        if local >= base:
            op, *operands = block.nodes[local - base]
            writer.compute(local, op, operands)
        else:
            writer.prepare(local)
        for run, k in written.get(local, ()):
            at = writer.at(first[run], k * 8 * lanes, "i8")
            writer.append(f"  store {writer.vector} {writer.number(local)}, ptr {at}, {writer.aligned}, !noalias !1")
    # the stack is aligned, or half of the spilled vectors would straddle two cache lines; small blocks do not spill
    attributes = "nounwind" + (f" alignstack({ALIGN})" if len(block.nodes) > 50 else "") + (" noinline optnone" if quick else "")
    return writer.function(f"void @{name}({BLOCK})", attributes)


def functions(blocks: Sequence[Block], places: Sequence[Sequence[Place] | None], *, lanes: int, quick: bool = False) -> str:
    """Return the functions of blocks whose numbers are lifted, `block0` and so on; values without places have an entry of the row each.

    With `quick` the blocks are left as they are by the optimiser.
    """
    text = []
    for i, (block, at) in enumerate(zip(blocks, places, strict=True)):
        if block == ELIMINATE:
            text.append(eliminate(f"block{i}", lanes))
        elif block not in (SADDLE_POINT, LINEAR_SYSTEM):  # these are code of their own
            every = [Place(entry, 0) for entry in range(block.inputs + len(block.starts))]
            text.append(_write_block(f"block{i}", block, lanes, at or every, quick))
    return "".join(text)


def module(*functions: str, lanes: int) -> str:
    """Return the IR of functions, with those that they call, and with the metadata that they name."""
    vector = f"<{lanes} x double>"
    text = [f"; {lanes} lanes\n"]
    for operation in OPERATIONS.values():
        if operation.llvm.startswith("@llvm."):
            text.append(f"declare {vector} {operation.llvm}.v{lanes}f64({', '.join([vector] * len(operation.operands))})\n")
    if any(f"@{name}" in function for name in ("sincos", "lanewise") for function in functions):
        text += [sincos(lanes, Data.TRIGONOMETRY), lanewise(lanes, 1), lanewise(lanes, 2)]
    text += functions
    # 1: what a call reads, which is nothing that it writes; 2: what never changes; 3: a branch that is hardly ever taken
    text.append('\n!0 = distinct !{!0}\n!1 = !{!4}\n!2 = !{}\n!3 = !{!"branch_weights", i32 1, i32 1000000}\n!4 = distinct !{!4, !0}\n')
    return "".join(text)
