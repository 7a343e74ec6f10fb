"""Writes the LLVM IR of the loop that NumPy calls.

A kernel works on groups of `lanes` states. Their inputs are packed into slots of a scratch memory, one vector of lanes per scalar, sines
and cosines of inputs are computed, the calls of the program run on the slots, and the results are unpacked. Lanes past the last state
repeat it, and write the same values to the same place. A batch advances `streams` groups together, call by call, each in a scratch memory
of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from catena.graph import Port
from catena.native.llvm.layout import ALIGN, STACK, Data
from catena.native.llvm.lines import Lines

#: Entries of an operand up to which their copies are written out.
UNROLLED = 64


def loop(inputs: Sequence[Port], outputs: Sequence[Port], lanes: int, streams: int, *, merged: bool, direct: bool, x86: bool) -> str:
    """Return the IR of `@loop` and its parts; `direct` if there is one block to call, else the table of calls is run.

    Where a program is `merged`, small sizes of operands are in the code.
    """
    copy = partial(_copy, operands=len(inputs) + len(outputs), lanes=lanes, streams=streams, known=merged)
    copies = copy("pack", inputs, 0, 0) + copy("unpack", outputs, len(inputs), sum(len(port.shape) for port in inputs))
    return calls(lanes, direct=direct) + copies + _loop(x86, lanes, streams)


def calls(lanes: int, *, direct: bool) -> str:
    """Return the IR of `@turn` and `@run`, which do the work of a program on groups of states that are packed."""
    return "\ndeclare i64 @llvm.smin.i64(i64, i64)\ndeclare ptr @llvm.ptrmask.p0.i64(ptr, i64)\n" + _turn(lanes) + _run(lanes, direct)


def _copy(direction: str, ports: Sequence[Port], first: int, axis: int, *, operands: int, lanes: int, streams: int, known: bool) -> str:
    """Return `@pack` or `@unpack`: the copy of all operands between NumPy's memory and the slots, for the states from %state on.

    Operand and axis numbers begin at `first` and `axis`; strides of the core axes follow the strides of the operands. Sizes that are
    `known` and small are in the code, others in the data, for code that serves kernels of several sizes.
    """
    known = known and max((port.size for port in ports), default=0) <= UNROLLED
    code = Lines(lanes)
    new, vector, packs = code.new, code.vector, direction == "pack"
    slot = code.variable("i64", "0")  # the next one
    sizes, outputs = code.entry("%data", Data.SIZES), code.entry("%data", Data.OUTPUTS)
    extents = [n for port in ports for n in port.shape]
    begin = axis

    def size(i: int) -> str:
        return str(extents[i - begin]) if known else code.entry(sizes, i, "i64")

    def place(i: str | int) -> str:
        return code.at("%scratch", i) if packs else code.place(i, outputs)

    def element(pointers: list[str], offset: str | int, i: str | int) -> None:
        places = [code.at(pointer, offset, "i8") for pointer in pointers]
        if packs:
            code.store(code.gathered(places), place(i))
        else:
            code.scatter(code.load(place(i)), places)

    def same(pointer: str, offset: str, i: str) -> None:
        """Read an entry that is the same in all states."""
        code.store(code.broadcast(code.get("double", code.at(pointer, offset, "i8"))), place(i))

    def axes(each: Callable[[str, str], None], offset: str, axis: int, count: int) -> None:
        """Go through all entries, by their offset from a state and their slot."""
        if count == 0:
            i = code.get("i64", slot)
            each(offset, i)
            code.set("i64", slot, code.plus(i, 1))
            return
        stride = code.entry("%steps", operands + axis, "i64")
        code.loop("0", size(axis), lambda i: axes(each, code.plus(offset, code.times(i, stride)), axis + 1, count - 1))

    def flat(pointers: list[str], ahead: str, axis: int, count: int, start: int) -> None:
        """Copy an operand that is contiguous: as many entries at a time as there are lanes, with all their states; then one by one."""
        if known:
            total = math.prod(extents[axis - begin : axis - begin + count])
            whole = total // lanes * lanes
            for i in range(0, whole, lanes):
                transposed(pointers, ahead, 8 * i, start + i)
            for i in range(whole, total):
                element(pointers, 8 * i, start + i)
            return
        entries = "1"
        for i in range(axis, axis + count):
            entries = code.times(entries, size(i))
        blocks, at = new(f"and i64 {entries}, {-lanes}"), code.get("i64", slot)
        code.loop("0", blocks, lambda i: transposed(pointers, ahead, new(f"shl i64 {i}, 3"), code.plus(at, i)), lanes)
        code.loop(blocks, entries, lambda i: element(pointers, new(f"shl i64 {i}, 3"), code.plus(at, i)))
        code.set("i64", slot, code.plus(at, entries))

    def transposed(pointers: list[str], ahead: str, offset: str | int, i: str | int) -> None:
        if packs:  # memory is slow where batches are large: what the next set of groups reads is on its way while this one runs
            there = code.plus(ahead, offset)
            for pointer in pointers:
                code.append(f"  call void @llvm.prefetch.p0(ptr {code.at(pointer, there, 'i8')}, i32 0, i32 2, i32 1)")
        slots = [place(i + k if isinstance(i, int) else code.plus(i, k)) for k in range(lanes)]
        states = [code.at(pointer, offset, "i8") for pointer in pointers]
        sources, targets = (states, slots) if packs else (slots, states)
        # the first exchange is done by loads: of halves of vectors, two to a vector
        half, part, align = lanes // 2, f"<{lanes // 2} x double>", 8 if packs else min(4 * lanes, ALIGN)
        rows = [""] * lanes
        for k in range(lanes):
            both = []
            for source in (sources[k % half], sources[k % half + half]):
                at = code.at(source, half * (k // half), "double")
                both.append(f"{part} {new(f'load {part}, ptr {at}, align {align}')}")
            rows[k] = new(f"shufflevector {', '.join(both)}, <{lanes} x i32> <{', '.join(f'i32 {lane}' for lane in range(lanes))}>")
        half //= 2
        while half:
            low = ", ".join(f"i32 {lanes + lane - half if lane & half else lane}" for lane in range(lanes))
            high = ", ".join(f"i32 {lanes + lane if lane & half else lane + half}" for lane in range(lanes))
            for k in [k for k in range(lanes) if not k & half]:
                both = f"{vector} {rows[k]}, {vector} {rows[k + half]}"
                rows[k], rows[k + half] = (new(f"shufflevector {both}, <{lanes} x i32> <{which}>") for which in (low, high))
            half //= 2
        for row, target in zip(rows, targets, strict=True):
            code.append(f"  store {vector} {row}, ptr {target}, align {min(8 * lanes, ALIGN) if packs else 8}")

    def contiguous(axis: int, count: int) -> str:
        """Return whether an operand is contiguous: strides of its axes, from the last on, are products of sizes."""
        sofar, stride = "true", "8"
        for i in reversed(range(axis, axis + count)):
            same = new(f"icmp eq i64 {code.entry('%steps', operands + i, 'i64')}, {stride}")
            sofar, stride = new(f"and i1 {sofar}, {same}"), code.times(stride, size(i))
        return sofar

    states = ["%state", *(code.least(code.plus("%state", lane), "%last") for lane in range(1, lanes))]
    start = 0
    for operand, port in enumerate(ports, first):
        count = len(port.shape)
        base, step = code.entry("%args", operand), code.entry("%steps", operand, "i64")
        pointers = [code.at(base, code.times(state, step), "i8") for state in states]
        ahead = code.times(step, lanes * streams)
        if known:
            code.set("i64", slot, str(start))
        copy: Callable[[], None] = partial(axes, partial(element, pointers), "0", axis, count)
        if count:
            copy = partial(code.when, contiguous(axis, count), partial(flat, pointers, ahead, axis, count, start), copy)
        if packs:
            copy = partial(code.when, new(f"icmp eq i64 {step}, 0"), partial(axes, partial(same, base), "0", axis, count), copy)
        copy()
        axis, start = axis + count, start + port.size
    parameters = "ptr noalias readonly %args, ptr noalias readonly %steps, ptr noalias readonly %data, ptr noalias %scratch"
    declared = "\ndeclare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n" if packs else ""
    return declared + code.function(f"internal void @{direction}({parameters}, i64 %state, i64 %last)")


def _turn(lanes: int) -> str:
    """Return `@turn`: the sines and cosines of inputs, before anything else."""
    code = Lines(lanes)
    vector, both = code.vector, f"{{ {code.vector}, {code.vector} }}"
    angles, turns = code.entry("%data", Data.ANGLES), code.entry("%data", Data.TURNS, "i64")
    first = code.at("%scratch", code.entry("%data", Data.PAIRS, "i64"), "i8")

    def turn(i: str) -> None:
        angle = code.at(angles, i, "[3 x i64]")
        place = code.entry(angle, 0, "i64")
        scale, offset = (code.broadcast(code.entry(angle, k, "double")) for k in (1, 2))
        x = code.op("fadd", code.op("fmul", code.load(code.at("%scratch", place, "i8")), scale), offset)
        pair = code.new(f"call {both} @sincos({vector} {x}, ptr %data)")
        to = code.at(first, i, f"[2 x {vector}]")
        for k in range(2):
            code.store(code.new(f"extractvalue {both} {pair}, {k}"), to, k)

    code.loop("0", turns, turn)
    return code.function("internal void @turn(ptr noalias %scratch, ptr noalias readonly %data)", f"nounwind alignstack({ALIGN})")


def _run(lanes: int, direct: bool) -> str:
    """Return `@run`: the only block, or all calls of the table, on the groups of states from %scratch to %stop."""
    code = Lines(lanes)
    calls = code.entry("%data", Data.CALLS)

    def groups(call: str, function: str, places: str) -> None:
        arguments = f"ptr {places}, ptr {code.entry(call, 2)}, ptr %data"
        code.walk("%scratch", "%stop", "%size", lambda group: code.append(f"  call void {function}(ptr {group}, {arguments})"))

    def one(i: str) -> None:
        call = code.at(calls, i, "[3 x ptr]")
        groups(call, code.entry(call, 0), code.entry(call, 1))

    if direct:
        groups(calls, "@block0", "null")
    else:
        code.loop("0", code.entry("%data", Data.COUNT, "i64"), one)
    return code.function("internal void @run(ptr %scratch, ptr %data, ptr %stop, i64 %size)")


def _loop(x86: bool, lanes: int, streams: int) -> str:
    """Return `@loop`: the groups of all states, in scratch memory on the stack, or allocated where it does not fit there."""
    code = Lines(lanes)
    new, append, entry = code.new, code.append, code.entry
    small, flags = new(f"alloca [{STACK} x i8], align {ALIGN}"), new("alloca i32")
    if x86:
        append(f"  call void @llvm.x86.sse.stmxcsr(ptr {flags})")
    states, size = code.get("i64", "%dims"), entry("%data", Data.SCRATCH, "i64")
    last, whole = code.plus(states, -1), code.times(size, streams)
    memory, start = code.variable("ptr", "null"), code.variable("ptr", small)

    def allocate() -> None:
        given = new(f"call ptr {entry('%data', Data.MALLOC)}(i64 {code.plus(whole, ALIGN)})")
        code.set("ptr", memory, given)
        code.set("ptr", start, new(f"call ptr @llvm.ptrmask.p0.i64(ptr {code.at(given, ALIGN - 1, 'i8')}, i64 -{ALIGN})"))

    def refuse() -> None:
        held = new(f"call i32 {entry('%data', Data.ENSURE)}()")
        new(f"call ptr {entry('%data', Data.NO_MEMORY)}()")
        append(f"  call void {entry('%data', Data.RELEASE)}(i32 {held})")

    def advance() -> None:
        scratch, state = code.get("ptr", start), code.variable("i64", "0")

        def each(call: str, first: str, stop: str) -> None:
            """Write a call for every group of a set."""
            code.set("i64", state, first)

            def group(here: str) -> None:
                at = code.get("i64", state)
                append(f"  call void @{call}(ptr %args, ptr %steps, ptr %data, ptr {here}, i64 {at}, i64 {last})")
                if call == "pack":
                    append(f"  call void @turn(ptr {here}, ptr %data)")
                code.set("i64", state, code.plus(at, lanes))

            code.walk(scratch, stop, size, group)

        def groups() -> str:
            first = code.get("i64", state)
            stop = code.end_of_set(first, states, scratch, size, streams)
            each("pack", first, stop)
            append(f"  call void @run(ptr {scratch}, ptr %data, ptr {stop}, i64 {size})")
            each("unpack", first, stop)
            return new(f"icmp slt i64 {code.get('i64', state)}, {states}")

        code.when(new(f"icmp sgt i64 {states}, 0"), lambda: code.repeat(groups))

    large = new(f"icmp ugt i64 {whole}, {STACK}")
    code.when(large, allocate)
    missing = new(f"icmp eq ptr {code.get('ptr', memory)}, null")
    code.when(new(f"and i1 {large}, {missing}"), refuse, advance)
    code.when(new(f"xor i1 {missing}, true"), lambda: append(f"  call void {entry('%data', Data.FREE)}(ptr {code.get('ptr', memory)})"))
    # the floating-point flags are put back; where the processor has no instructions for that, the C library clears them
    if x86:
        append(f"  call void @llvm.x86.sse.ldmxcsr(ptr {flags})")
    else:
        new(f"call i32 {entry('%data', Data.CLEAR)}(i32 31)")
    declared = "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n" if x86 else ""
    return declared + code.function("void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data)")
