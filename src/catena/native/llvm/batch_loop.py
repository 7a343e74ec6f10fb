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

#: Memory of an operand up to this size [bytes] is fetched for a set of states.
FETCHED = 1 << 18

#: Where large results are written, lines of the memory so far ahead [bytes] are fetched.
AHEAD = 1024


def loop(inputs: Sequence[Port], outputs: Sequence[Port], lanes: int, streams: int, *, merged: bool, direct: bool, x86: bool) -> str:
    """Return the IR of `@loop` and its parts; `direct` if there is one block to call, else the table of calls is run.

    Where a program is `merged`, small sizes of operands are in the code.
    """
    copy = partial(_copy, operands=len(inputs) + len(outputs), lanes=lanes, known=merged)
    copies = copy("pack", inputs, 0, 0) + copy("unpack", outputs, len(inputs), sum(len(port.shape) for port in inputs))
    fetched = [False] * len(inputs) + [True] * len(outputs)
    return calls(lanes, direct=direct, fetched=fetched) + copies + _loop(x86, lanes, streams, len(inputs), len(outputs))


def calls(lanes: int, *, direct: bool, fetched: Sequence[bool] = ()) -> str:
    """Return the IR of `@turn` and `@run`, which do the work of a program on groups of states that are packed.

    Operands of other memory are `fetched` meanwhile: whether each is written to.
    """
    declared = "declare i64 @llvm.smin.i64(i64, i64)\ndeclare ptr @llvm.ptrmask.p0.i64(ptr, i64)\n"
    return f"\n{declared}declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n" + _turn(lanes) + _run(lanes, direct, fetched)


def _fetch(code: Lines, base: str, offset: str | int, *, written: bool) -> None:
    """Write what fetches a cache line from memory, so many bytes from a pointer on."""
    code.append(f"  call void @llvm.prefetch.p0(ptr {code.at(base, offset, 'i8')}, i32 {int(written)}, i32 2, i32 1)")


def _copy(direction: str, ports: Sequence[Port], first: int, axis: int, *, operands: int, lanes: int, known: bool) -> str:
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

    def flat(pointers: list[str], axis: int, count: int, start: int) -> None:
        """Copy an operand that is contiguous: as many entries at a time as there are lanes, with all their states; then one by one.

        Where a size is known, the last entries that are not as many are copied with others that come twice, if there are enough.
        """
        if known:
            total, half = math.prod(extents[axis - begin : axis - begin + count]), lanes // 2
            for i in range(0, total, lanes if total >= half else 1):
                if total >= half:
                    transposed(pointers, min(i, total - half), min(i + half, total - half), str(start))
                else:
                    element(pointers, 8 * i, start + i)
            return
        entries = "1"
        for i in range(axis, axis + count):
            entries = code.times(entries, size(i))
        blocks, at = new(f"and i64 {entries}, {-lanes}"), code.get("i64", slot)
        code.loop("0", blocks, lambda i: transposed(pointers, i, code.plus(i, lanes // 2), at), lanes)
        code.loop(blocks, entries, lambda i: element(pointers, new(f"shl i64 {i}, 3"), code.plus(at, i)))
        code.set("i64", slot, code.plus(at, entries))

    def transposed(pointers: list[str], first: str | int, second: str | int, start: str) -> None:
        """Copy half as many entries as there are lanes from the first on, and as many from the second on; slots follow the start."""
        half, align = lanes // 2, (8, min(4 * lanes, ALIGN))
        part = f"<{half} x double>"
        slots = [place(code.plus(code.plus(start, begin), k)) for begin in (first, second) for k in range(half)]
        states = [[code.at(pointer, begin, "double") for pointer in pointers] for begin in (first, second)]
        # the first exchange is done by loads: of halves of vectors, two to a vector
        rows = [""] * lanes
        for k in range(lanes):
            if packs:  # half of a state and of another
                sources = [states[k // half][k % half + n] for n in (0, half)]
            else:  # the results of half of the states, of a slot and of another
                sources = [code.at(slots[k % half + n], half * (k // half), "double") for n in (0, half)]
            both = ", ".join(f"{part} {new(f'load {part}, ptr {source}, align {align[not packs]}')}" for source in sources)
            rows[k] = new(f"shufflevector {both}, <{lanes} x i32> <{', '.join(f'i32 {lane}' for lane in range(lanes))}>")
        step = half // 2
        while step:
            low = ", ".join(f"i32 {lanes + lane - step if lane & step else lane}" for lane in range(lanes))
            high = ", ".join(f"i32 {lanes + lane if lane & step else lane + step}" for lane in range(lanes))
            for k in [k for k in range(lanes) if not k & step]:
                both = f"{vector} {rows[k]}, {vector} {rows[k + step]}"
                rows[k], rows[k + step] = (new(f"shufflevector {both}, <{lanes} x i32> <{which}>") for which in (low, high))
            step //= 2
        whole = isinstance(first, str) or second == first + half
        for k, row in enumerate(rows):
            if packs:
                code.append(f"  store {vector} {row}, ptr {slots[k]}, align {min(8 * lanes, ALIGN)}")
            elif whole:
                if not known:
                    _fetch(code, states[0][k], AHEAD, written=True)
                code.append(f"  store {vector} {row}, ptr {states[0][k]}, align 8")
            else:
                for n in range(2):
                    lanes_of = ", ".join(f"i32 {n * half + lane}" for lane in range(half))
                    kept = new(f"shufflevector {vector} {row}, {vector} poison, <{half} x i32> <{lanes_of}>")
                    code.append(f"  store {part} {kept}, ptr {states[n][k]}, align 8")

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
        if known:
            code.set("i64", slot, str(start))
        copy: Callable[[], None] = partial(axes, partial(element, pointers), "0", axis, count)
        if count:
            copy = partial(code.when, contiguous(axis, count), partial(flat, pointers, axis, count, start), copy)
        if packs:
            copy = partial(code.when, new(f"icmp eq i64 {step}, 0"), partial(axes, partial(same, base), "0", axis, count), copy)
        copy()
        axis, start = axis + count, start + port.size
    parameters = "ptr noalias readonly %args, ptr noalias readonly %steps, ptr noalias readonly %data, ptr noalias %scratch"
    return code.function(f"internal void @{direction}({parameters}, i64 %state, i64 %last)")


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


def _run(lanes: int, direct: bool, fetched: Sequence[bool]) -> str:
    """Return `@run`: the only block, or all calls of the table, on the groups of states from %scratch to %stop.

    With each call goes a part of the memory that is fetched meanwhile: %ahead tells for every operand where that begins, and its bytes.
    """
    code = Lines(lanes)
    calls = code.entry("%data", Data.CALLS)

    def fetch_part(i: str) -> None:
        for k, written in enumerate(fetched):
            start, size = (code.get(kind, code.at("%ahead", 2 * k + j, "i64")) for j, kind in enumerate(("ptr", "i64")))
            part = code.at(start, code.times(size, i), "i8")
            code.loop("0", size, partial(_fetch, code, part, written=written), ALIGN)

    def groups(call: str, function: str, places: str) -> None:
        arguments = f"ptr {places}, ptr {code.entry(call, 2)}, ptr %data"
        code.walk("%scratch", "%stop", "%size", lambda group: code.append(f"  call void {function}(ptr {group}, {arguments})"))

    def one(i: str) -> None:
        call = code.at(calls, i, "[3 x ptr]")
        fetch_part(i)
        groups(call, code.entry(call, 0), code.entry(call, 1))

    if direct:
        fetch_part("0")
        groups(calls, "@block0", "null")
    else:
        code.loop("0", code.entry("%data", Data.COUNT, "i64"), one)
    ahead = ", ptr %ahead" if fetched else ""
    return code.function(f"internal void @run(ptr %scratch, ptr %data, ptr %stop, i64 %size{ahead})")


def _loop(x86: bool, lanes: int, streams: int, inputs: int, outputs: int) -> str:
    """Return `@loop`: the groups of all states, in scratch memory on the stack, or allocated where it does not fit there."""
    code = Lines(lanes)
    new, append, entry = code.new, code.append, code.entry
    small, flags = new(f"alloca [{STACK} x i8], align {ALIGN}"), new("alloca i32")
    if x86:
        append(f"  call void @llvm.x86.sse.stmxcsr(ptr {flags})")
    states, size = code.get("i64", "%dims"), entry("%data", Data.SCRATCH, "i64")
    last, whole = code.plus(states, -1), code.times(size, streams)
    ahead, bases = _ahead(code, states, lanes * streams, inputs, outputs)
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
            for k, (base, step) in enumerate(bases):
                at = code.plus(first, lanes * streams if k < inputs else 0)
                code.set("ptr", code.at(ahead, 2 * k, "i64"), code.at(base, code.times(at, step), "i8"))
            append(f"  call void @run(ptr {scratch}, ptr %data, ptr {stop}, i64 {size}, ptr {ahead})")
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
    declared += "declare i64 @llvm.umax.i64(i64, i64)\n"
    return declared + code.function("void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data)")


def _ahead(code: Lines, states: str, most: int, inputs: int, outputs: int) -> tuple[str, list[tuple[str, str]]]:
    """Write the table of what is fetched while a set of at most so many states is computed; return it, and base and step of operands.

    Memory is slow where batches are large: what the next set reads, and where this one writes, comes in parts, one with each call.
    """
    ahead = code.new(f"alloca [{2 * (inputs + outputs)} x i64]")
    count, bases = code.entry("%data", Data.COUNT, "i64"), []
    lines = code.times(code.new(f"call i64 @llvm.umax.i64(i64 {count}, i64 1)"), ALIGN)  # one for each call
    limit = code.new(f"select i1 {code.new(f'icmp sgt i64 {states}, {most}')}, i64 {FETCHED}, i64 0")
    for k in range(inputs + outputs):
        base, step = code.entry("%args", k), code.entry("%steps", k, "i64")
        size = code.times(step, most)
        parts = code.new(f"udiv i64 {code.plus(code.plus(size, lines), -1)}, {lines}")
        useless = code.new(f"icmp ugt i64 {size}, {limit}")  # too much at a time, or backwards
        code.set("i64", code.at(ahead, 2 * k + 1, "i64"), code.new(f"select i1 {useless}, i64 0, i64 {code.times(parts, ALIGN)}"))
        bases.append((base, step))
    return ahead, bases
