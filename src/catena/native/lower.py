"""Writes the LLVM IR of a program: a function of straight-line code over lane vectors per block, under the driver that calls them.

Everything that may differ between two mechanisms of the same shape comes from tables, never from the code: sizes, slots, numbers, the
sequence of calls. So the code has no constants to relocate, and serves every such mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catena.graph import ELIMINATE, SADDLE_POINT, Block, Program
from catena.native.eliminate import eliminate
from catena.native.functions import FLAGS, LIBRARY, lanewise, sincos
from catena.native.layout import ALIGN, Data


class _BlockWriter:
    """Writes one block: its values by local number, as vectors of doubles or of truth values."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.vector = f"<{lanes} x double>"
        self.truth = f"<{lanes} x i1>"
        self.lines: list[str] = []
        self.values: dict[int, str] = {}
        self.conditions: dict[int, str] = {}
        self.pairs: dict[int, tuple[str, str]] = {}

    def new(self, text: str) -> str:
        """Return the name of a new value."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def value(self, local: int) -> str:
        """Return the vector of doubles of a local, 1 or 0 for a condition."""
        name = self.values.get(local)
        if name is None:
            one = self.new(f"uitofp {self.truth} {self.conditions[local]} to {self.vector}")
            name = self.values[local] = one
        return name

    def condition(self, local: int) -> str:
        """Return the vector of truth values of a local: a double holds where it is not 0."""
        name = self.conditions.get(local)
        if name is None:
            name = self.conditions[local] = self.new(f"fcmp une {self.vector} {self.value(local)}, zeroinitializer")
        return name

    def broadcast(self, number: str) -> str:
        """Return a scalar in all lanes."""
        one = self.new(f"insertelement {self.vector} poison, double {number}, i32 0")
        return self.new(f"shufflevector {self.vector} {one}, {self.vector} poison, <{self.lanes} x i32> zeroinitializer")


_Emitter = Callable[[_BlockWriter, Sequence[int]], str]


def _arithmetic(instruction: str) -> _Emitter:
    def emit(writer: _BlockWriter, operands: Sequence[int]) -> str:
        a, b = (writer.value(i) for i in operands)
        return writer.new(f"{instruction} {FLAGS} {writer.vector} {a}, {b}")

    return emit


def _intrinsic(name: str) -> _Emitter:
    def emit(writer: _BlockWriter, operands: Sequence[int]) -> str:
        arguments = ", ".join(f"{writer.vector} {writer.value(i)}" for i in operands)
        return writer.new(f"call nsz {writer.vector} @llvm.{name}.v{writer.lanes}f64({arguments})")

    return emit


def _negate(writer: _BlockWriter, operands: Sequence[int]) -> str:
    return writer.new(f"fneg {FLAGS} {writer.vector} {writer.value(operands[0])}")


def _trigonometric(which: int) -> _Emitter:
    def emit(writer: _BlockWriter, operands: Sequence[int]) -> str:
        argument = operands[0]
        if argument not in writer.pairs:
            both = f"{{ {writer.vector}, {writer.vector} }}"
            pair = writer.new(f"call {both} @sincos_once({writer.vector} {writer.value(argument)}, ptr %data)")
            sine, cosine = (writer.new(f"extractvalue {both} {pair}, {i}") for i in (0, 1))
            writer.pairs[argument] = (sine, cosine)
        return writer.pairs[argument][which]

    return emit


def _library(name: str) -> _Emitter:
    def emit(writer: _BlockWriter, operands: Sequence[int]) -> str:
        arguments = ", ".join(f"{writer.vector} {writer.value(i)}" for i in operands)
        entry = writer.new(f"getelementptr ptr, ptr %data, i64 {LIBRARY.index(name)}")
        return writer.new(f"call {writer.vector} @lanewise{'' if len(operands) == 1 else 2}(ptr {entry}, {arguments})")

    return emit


def _select(writer: _BlockWriter, operands: Sequence[int]) -> str:
    condition, a, b = writer.condition(operands[0]), writer.value(operands[1]), writer.value(operands[2])
    return writer.new(f"select {writer.truth} {condition}, {writer.vector} {a}, {writer.vector} {b}")


def _compare(predicate: str) -> _Emitter:
    def emit(writer: _BlockWriter, operands: Sequence[int]) -> str:
        a, b = (writer.value(i) for i in operands)
        return writer.new(f"fcmp {predicate} {writer.vector} {a}, {b}")

    return emit


def _logic(instruction: str) -> _Emitter:
    def emit(writer: _BlockWriter, operands: Sequence[int]) -> str:
        a, b = (writer.condition(i) for i in operands)
        return writer.new(f"{instruction} {writer.truth} {a}, {b}")

    return emit


def _not(writer: _BlockWriter, operands: Sequence[int]) -> str:
    yes = "<" + ", ".join(["i1 true"] * writer.lanes) + ">"
    return writer.new(f"xor {writer.truth} {writer.condition(operands[0])}, {yes}")


_EMIT: dict[str, _Emitter] = {
    "add": _arithmetic("fadd"), "sub": _arithmetic("fsub"), "mul": _arithmetic("fmul"), "div": _arithmetic("fdiv"),
    "neg": _negate, "sqrt": _intrinsic("sqrt"), "abs": _intrinsic("fabs"), "min": _intrinsic("minimum"), "max": _intrinsic("maximum"),
    "sin": _trigonometric(0), "cos": _trigonometric(1),
    "exp": _library("exp"), "log": _library("log"), "tanh": _library("tanh"), "atan2": _library("atan2"),
    "select": _select, "lt": _compare("olt"), "le": _compare("ole"), "eq": _compare("oeq"),
    "and": _logic("and"), "or": _logic("or"), "not": _not,
}  # fmt: skip

_CONDITIONS = frozenset(("lt", "le", "eq", "and", "or", "not"))


def _write_block(name: str, block: Block, lanes: int, reads: Sequence[int] | None, write: int | None, quick: bool) -> str:
    """Return the function of a block. Its slots are those given, or else come from the row of places."""
    writer = _BlockWriter(lanes)
    new, vector, size = writer.new, writer.vector, 8 * lanes
    aligned = f"align {min(size, ALIGN)}"

    def place(i: int, slot: int | None) -> str:
        if slot is not None:
            return new(f"getelementptr i8, ptr %scratch, i64 {slot * size}")
        offset = new(f"load i32, ptr {new(f'getelementptr i32, ptr %places, i64 {i}')}, !invariant.load !2")
        return new(f"getelementptr i8, ptr %scratch, i64 {new(f'zext i32 {offset} to i64')}")

    # operands are loaded where they are first used
    def prepare(local: int) -> None:
        if local in writer.values or local in writer.conditions:
            return
        if local < block.inputs:
            at = place(local, None if reads is None else reads[local])
            writer.values[local] = new(f"load {vector}, ptr {at}, {aligned}, !alias.scope !1")
        else:
            number = new(f"getelementptr double, ptr %numbers, i64 {local - block.inputs}")
            writer.values[local] = writer.broadcast(new(f"load double, ptr {number}, !invariant.load !2"))

    base = block.inputs + block.numbers
    written: dict[int, list[int]] = {}
    for k, local in enumerate(block.results):
        written.setdefault(local, []).append(k)
    first = None
    for local in (*range(base, base + len(block.nodes)), *(local for local in written if local < base)):
        if local >= base:
            op, *operands = block.nodes[local - base]
            for operand in operands:
                if operand < base:
                    prepare(operand)
            (writer.conditions if op in _CONDITIONS else writer.values)[local] = _EMIT[op](writer, operands)
        else:
            prepare(local)
        for k in written.get(local, ()):
            if first is None:
                first = place(block.inputs, write)
            at = new(f"getelementptr i8, ptr {first}, i64 {k * size}")
            writer.lines.append(f"  store {vector} {writer.value(local)}, ptr {at}, {aligned}, !noalias !1")
    body = "\n".join(writer.lines)
    read = "ptr noalias readonly"
    # the stack is aligned, or half of the spilled vectors would straddle two cache lines; small blocks do not spill
    attributes = "nounwind" + (f" alignstack({ALIGN})" if len(block.nodes) > 50 else "") + (" noinline optnone" if quick else "")
    return f"""
define void @{name}(ptr noalias %scratch, {read} %places, {read} %numbers, {read} %data) {attributes} {{
{body}
  ret void
}}
"""


def write(program: Program, driver: str, *, lanes: int, merged: bool, quick: bool = False) -> str:
    """Return the IR of a program whose numbers are lifted, with the driver that calls it.

    A merged program is one block whose slots are in the code. With `quick` its blocks are left as they are by the optimiser.
    """
    vector = f"<{lanes} x double>"
    text = [f"; {lanes} lanes, {len(program.blocks)} blocks\n"]
    for name, arguments in (("fabs", 1), ("sqrt", 1), ("minimum", 2), ("maximum", 2)):
        text.append(f"declare {vector} @llvm.{name}.v{lanes}f64({', '.join([vector] * arguments)})\n")
    text += [sincos(lanes, Data.TRIGONOMETRY), lanewise(lanes, 1), lanewise(lanes, 2)]
    for i, block in enumerate(program.blocks):
        call = program.calls[0] if merged else None
        if block == ELIMINATE:
            text.append(eliminate(f"block{i}", lanes))
        elif block != SADDLE_POINT:  # that is code of its own
            text.append(_write_block(f"block{i}", block, lanes, call and call.reads, call and call.writes[0], quick))
    text.append(driver)
    # 1: what a call reads, which is nothing that it writes; 2: what never changes; 3: a branch that is hardly ever taken
    text.append('\n!0 = distinct !{!0}\n!1 = !{!4}\n!2 = !{}\n!3 = !{!"branch_weights", i32 1, i32 1000000}\n!4 = distinct !{!4, !0}\n')
    return "".join(text)
