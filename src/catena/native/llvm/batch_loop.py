"""Writes the LLVM IR of the loop that NumPy calls.

A kernel works on groups of `lanes` states. Their inputs are packed into slots of a scratch memory, one vector of lanes per scalar, sines
and cosines of inputs are computed, the calls of the program run on the slots, and the results are unpacked. Lanes past the last state
repeat it, and write the same values to the same place. A batch advances `streams` groups together, call by call, each in a scratch memory
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from catena.graph import Port
from catena.native.llvm.layout import ALIGN, STACK, Data
from catena.native.llvm.lines import FLAGS, Lines


def loop(inputs: Sequence[Port], outputs: Sequence[Port], lanes: int, streams: int, *, direct: bool, x86: bool) -> str:
    """Return the IR of `@loop` and its parts; `direct` if there is one block to call, else the table of calls is run."""
    operands = len(inputs) + len(outputs)
    axes = sum(len(port.shape) for port in inputs)
    copies = _copy("pack", inputs, 0, 0, operands, lanes) + _copy("unpack", outputs, len(inputs), axes, operands, lanes)
    return calls(lanes, direct=direct) + copies + _loop(x86, lanes, streams)


def calls(lanes: int, *, direct: bool) -> str:
    """Return the IR of `@turn` and `@run`, which do the work of a program on groups of states that are packed."""
    return "\ndeclare i64 @llvm.smin.i64(i64, i64)\ndeclare ptr @llvm.ptrmask.p0.i64(ptr, i64)\n" + _turn(lanes) + _run(direct)


def _copy(direction: str, ports: Sequence[Port], first: int, axis: int, operands: int, lanes: int) -> str:
    """Return `@pack` or `@unpack`: the copy of all operands between NumPy's memory and the slots, for the states from %state on.

    Operand and axis numbers begin at `first` and `axis`; strides of the core axes follow the strides of the operands.
    """
    head: list[str] = ["  %slot = alloca i64", "  store i64 0, ptr %slot"]
    lines = Lines(lanes)
    new, vector, aligned = lines.new, lines.vector, lines.aligned

    def entry(base: str, kind: str, i: int) -> str:
        return new(f"load {kind}, ptr {new(f'getelementptr i64, ptr {base}, i64 {i}')}, !invariant.load !2")

    def element(pointers: list[str], offset: str) -> None:
        at = [new(f"getelementptr i8, ptr {pointer}, i64 {offset}") for pointer in pointers]
        slot = new("load i64, ptr %slot")
        if direction == "pack":
            place = new(f"getelementptr i8, ptr %scratch, i64 {new(f'mul i64 {slot}, {8 * lanes}')}")
            packed = "poison"
            for lane, pointer in enumerate(at):
                packed = new(f"insertelement {vector} {packed}, double {new(f'load double, ptr {pointer}')}, i32 {lane}")
            lines.append(f"  store {vector} {packed}, ptr {place}, {aligned}")
        else:
            place = new(f"getelementptr i8, ptr %scratch, i64 {lines.integer('%outputs', slot)}")
            packed = new(f"load {vector}, ptr {place}, {aligned}")
            for lane, pointer in enumerate(at):
                lines.append(f"  store double {new(f'extractelement {vector} {packed}, i32 {lane}')}, ptr {pointer}")
        lines.append(f"  store i64 {lines.plus(slot, 1)}, ptr %slot")

    def axes(pointers: list[str], offset: str, axis: int, count: int) -> None:
        if count == 0:
            element(pointers, offset)
            return
        extent, stride = entry("%sizes", "i64", axis), entry("%steps", "i64", operands + axis)
        head.append(f"  %count{axis} = alloca i64")
        lines.extend((f"  store i64 0, ptr %count{axis}", f"  br label %head{axis}", f"head{axis}:"))
        step = new(f"load i64, ptr %count{axis}")
        more = new(f"icmp slt i64 {step}, {extent}")
        lines.extend((f"  br i1 {more}, label %body{axis}, label %exit{axis}", f"body{axis}:"))
        axes(pointers, new(f"add i64 {offset}, {new(f'mul i64 {step}, {stride}')}"), axis + 1, count - 1)
        lines.append(f"  store i64 {new(f'add i64 {step}, 1')}, ptr %count{axis}")
        lines.extend((f"  br label %head{axis}", f"exit{axis}:"))

    def flat(pointers: list[str], axis: int, count: int) -> None:
        """Write the results of an operand that is contiguous: as many entries at a time as there are lanes, with all their states."""
        total = "1"
        for i in range(axis, axis + count):
            total = new(f"mul i64 {total}, {entry('%sizes', 'i64', i)}")
        whole = new(f"and i64 {total}, {-lanes}")
        for kind, start, stop, step in (("block", "0", whole, lanes), ("rest", whole, total, 1)):
            name = f"{kind}{axis}"
            head.append(f"  %{name} = alloca i64")
            lines.extend((f"  store i64 {start}, ptr %{name}", f"  br label %head_{name}", f"head_{name}:"))
            at = new(f"load i64, ptr %{name}")
            more = new(f"icmp slt i64 {at}, {stop}")
            lines.extend((f"  br i1 {more}, label %body_{name}, label %exit_{name}", f"body_{name}:"))
            offset = new(f"shl i64 {at}, 3")
            if kind == "block":
                transposed(pointers, offset)
            else:
                element(pointers, offset)
            lines.append(f"  store i64 {lines.plus(at, step)}, ptr %{name}")
            lines.extend((f"  br label %head_{name}", f"exit_{name}:"))

    def transposed(pointers: list[str], offset: str) -> None:
        slot = new("load i64, ptr %slot")
        places = [lines.integer("%outputs", lines.plus(slot, i)) for i in range(lanes)]
        places = [new(f"getelementptr i8, ptr %scratch, i64 {place}") for place in places]
        # the first exchange is done by loads: of halves of vectors, two to a vector
        half, part = lanes // 2, f"<{lanes // 2} x double>"
        rows = [""] * lanes
        for i in range(lanes):
            first, second = (places[i % half], places[i % half + half])
            both = []
            for place in (first, second):
                at = new(f"getelementptr double, ptr {place}, i64 {half * (i // half)}")
                both.append(f"{part} {new(f'load {part}, ptr {at}, align {min(4 * lanes, ALIGN)}')}")
            rows[i] = new(f"shufflevector {', '.join(both)}, <{lanes} x i32> <{', '.join(f'i32 {lane}' for lane in range(lanes))}>")
        half //= 2
        while half:
            low = ", ".join(f"i32 {lanes + lane - half if lane & half else lane}" for lane in range(lanes))
            high = ", ".join(f"i32 {lanes + lane if lane & half else lane + half}" for lane in range(lanes))
            for i in [i for i in range(lanes) if not i & half]:
                both = f"{vector} {rows[i]}, {vector} {rows[i + half]}"
                rows[i], rows[i + half] = (new(f"shufflevector {both}, <{lanes} x i32> <{which}>") for which in (low, high))
            half //= 2
        for row, pointer in zip(rows, pointers, strict=True):
            lines.append(f"  store {vector} {row}, ptr {new(f'getelementptr i8, ptr {pointer}, i64 {offset}')}, align 8")
        lines.append(f"  store i64 {lines.plus(slot, lanes)}, ptr %slot")

    def contiguous(axis: int, count: int) -> str:
        """Return whether an operand is contiguous: strides of its axes, from the last on, are products of sizes."""
        known, stride = "true", "8"
        for i in reversed(range(axis, axis + count)):
            same = new(f"icmp eq i64 {entry('%steps', 'i64', operands + i)}, {stride}")
            known, stride = new(f"and i1 {known}, {same}"), new(f"mul i64 {stride}, {entry('%sizes', 'i64', i)}")
        return known

    states = ["%state"]
    for lane in range(1, lanes):
        states.append(new(f"call i64 @llvm.smin.i64(i64 {new(f'add i64 %state, {lane}')}, i64 %last)"))
    for operand, port in enumerate(ports, first):
        start, step = entry("%args", "ptr", operand), entry("%steps", "i64", operand)
        pointers = [new(f"getelementptr i8, ptr {start}, i64 {new(f'mul i64 {state}, {step}')}") for state in states]
        count = len(port.shape)
        if direction == "unpack" and count:
            lines.append(f"  br i1 {contiguous(axis, count)}, label %flat{axis}, label %strided{axis}")
            lines.append(f"flat{axis}:")
            flat(pointers, axis, count)
            lines.extend((f"  br label %copied{axis}", f"strided{axis}:"))
            axes(pointers, "0", axis, count)
            lines.extend((f"  br label %copied{axis}", f"copied{axis}:"))
        else:
            axes(pointers, "0", axis, count)
        axis += count
    parameters = "ptr noalias readonly %args, ptr noalias readonly %steps, ptr noalias readonly %data, ptr noalias %scratch"
    newline = "\n"
    return f"""
define internal void @{direction}({parameters}, i64 %state, i64 %last) nounwind {{
{newline.join(head)}
  %sizes_at = getelementptr ptr, ptr %data, i64 {Data.SIZES:d}
  %sizes = load ptr, ptr %sizes_at
  %outputs_at = getelementptr ptr, ptr %data, i64 {Data.OUTPUTS:d}
  %outputs = load ptr, ptr %outputs_at
{newline.join(lines)}
  ret void
}}
"""


def _turn(lanes: int) -> str:
    """Return `@turn`: the sines and cosines of inputs, before anything else."""
    vector, size = f"<{lanes} x double>", 8 * lanes
    both, aligned = f"{{ {vector}, {vector} }}", f"align {min(size, ALIGN)}"
    return f"""
define internal void @turn(ptr noalias %scratch, ptr noalias readonly %data) nounwind alignstack({ALIGN}) {{
entry:
{_entry("angles", Data.ANGLES)}{_entry("turns", Data.TURNS, "i64")}{_entry("pairs", Data.PAIRS, "i64")}
  %first = getelementptr i8, ptr %scratch, i64 %pairs
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %turns
  br i1 %more, label %body, label %exit
body:
  %angle = getelementptr [3 x i64], ptr %angles, i64 %i
  %place = load i64, ptr %angle, !invariant.load !2
  %scale_at = getelementptr i64, ptr %angle, i64 1
  %scale = load double, ptr %scale_at, !invariant.load !2
  %offset_at = getelementptr i64, ptr %angle, i64 2
  %offset = load double, ptr %offset_at, !invariant.load !2
  %one_scale = insertelement {vector} poison, double %scale, i32 0
  %scales = shufflevector {vector} %one_scale, {vector} poison, <{lanes} x i32> zeroinitializer
  %one_offset = insertelement {vector} poison, double %offset, i32 0
  %offsets = shufflevector {vector} %one_offset, {vector} poison, <{lanes} x i32> zeroinitializer
  %from = getelementptr i8, ptr %scratch, i64 %place
  %input = load {vector}, ptr %from, {aligned}
  %product = fmul {FLAGS} {vector} %input, %scales
  %x = fadd {FLAGS} {vector} %product, %offsets
  %pair = call {both} @sincos({vector} %x, ptr %data)
  %sine = extractvalue {both} %pair, 0
  %cosine = extractvalue {both} %pair, 1
  %to = getelementptr [2 x {vector}], ptr %first, i64 %i
  %then = getelementptr {vector}, ptr %to, i64 1
  store {vector} %sine, ptr %to, {aligned}
  store {vector} %cosine, ptr %then, {aligned}
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}}
"""


def _entry(name: str, i: int, kind: str = "ptr") -> str:
    return f"  %{name}_at = getelementptr ptr, ptr %data, i64 {i:d}\n  %{name} = load {kind}, ptr %{name}_at, !invariant.load !2\n"


def _run(direct: bool) -> str:
    """Return `@run`: the only block, or all calls of the table, on the groups of states from %scratch to %stop."""

    def groups(before: str, name: str, function: str, places: str, after: str) -> str:
        return f"""{name}:
  %group = phi ptr [ %scratch, %{before} ], [ %other, %{name} ]
  call void {function}(ptr %group, ptr {places}, ptr %numbers, ptr %data)
  %other = getelementptr i8, ptr %group, i64 %size
  %again = icmp ult ptr %other, %stop
  br i1 %again, label %{name}, label %{after}
"""

    def numbers(call: str) -> str:
        return f"  %numbers_at = getelementptr ptr, ptr {call}, i64 2\n  %numbers = load ptr, ptr %numbers_at, !invariant.load !2\n"

    block = f"""{numbers("%calls")}  br label %body
{groups("entry", "body", "@block0", "null", "exit")}"""
    calls = f"""{_entry("count", Data.COUNT, "i64")}  %end = getelementptr [3 x ptr], ptr %calls, i64 %count
  br label %head
head:
  %call = phi ptr [ %calls, %entry ], [ %next, %tail ]
  %more = icmp ult ptr %call, %end
  br i1 %more, label %body, label %exit
body:
  %function = load ptr, ptr %call, !invariant.load !2
  %places_at = getelementptr ptr, ptr %call, i64 1
  %places = load ptr, ptr %places_at, !invariant.load !2
{numbers("%call")}  br label %inner
{groups("body", "inner", "%function", "%places", "tail")}tail:
  %next = getelementptr [3 x ptr], ptr %call, i64 1
  br label %head
"""
    return f"""
define internal void @run(ptr %scratch, ptr %data, ptr %stop, i64 %size) nounwind {{
entry:
{_entry("calls", Data.CALLS)}{block if direct else calls}exit:
  ret void
}}
"""


#: How the floating-point flags are saved and put back, per family of processors; elsewhere the C library clears them.
_X86_FLAGS = (
    "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n",
    "  %flags = alloca i32\n  call void @llvm.x86.sse.stmxcsr(ptr %flags)\n",
    "  call void @llvm.x86.sse.ldmxcsr(ptr %flags)\n",
)
_OTHER_FLAGS = ("", _entry("clear", Data.CLEAR), "  %cleared = call i32 %clear(i32 31)\n")


def _loop(x86: bool, lanes: int, streams: int) -> str:
    declare, save, restore = _X86_FLAGS if x86 else _OTHER_FLAGS
    return f"""
{declare}
define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind {{
entry:
  %small = alloca [{STACK} x i8], align {ALIGN}
{save}  %states = load i64, ptr %dims
  %last = sub i64 %states, 1
{_entry("size", Data.SCRATCH, "i64")}
  %empty = icmp slt i64 %states, 1
  br i1 %empty, label %done, label %begin
begin:
  %whole = mul i64 %size, {streams}
  %fits = icmp ule i64 %whole, {STACK}
  br i1 %fits, label %start, label %allocate
allocate:
{_entry("malloc", Data.MALLOC)}
  %room = add i64 %whole, {ALIGN}
  %memory = call ptr %malloc(i64 %room)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %refuse, label %align
refuse:
{_entry("ensure", Data.ENSURE)}{_entry("no_memory", Data.NO_MEMORY)}{_entry("release", Data.RELEASE)}
  %held = call i32 %ensure()
  %nothing = call ptr %no_memory()
  call void %release(i32 %held)
  br label %done
align:
  %raised = getelementptr i8, ptr %memory, i64 {ALIGN - 1}
  %aligned = call ptr @llvm.ptrmask.p0.i64(ptr %raised, i64 -{ALIGN})
  br label %start
start:
  %large = phi ptr [ null, %begin ], [ %memory, %align ]
  %scratch = phi ptr [ %small, %begin ], [ %aligned, %align ]
  br label %group
group:
  %state = phi i64 [ 0, %start ], [ %following, %after ]
  %limit_far = add i64 %state, {lanes * streams}
  %limit = call i64 @llvm.smin.i64(i64 %limit_far, i64 %states)
  br label %packing
packing:
  %packed = phi i64 [ %state, %group ], [ %packed_next, %packing ]
  %into = phi ptr [ %scratch, %group ], [ %into_next, %packing ]
  call void @pack(ptr %args, ptr %steps, ptr %data, ptr %into, i64 %packed, i64 %last)
  call void @turn(ptr %into, ptr %data)
  %packed_next = add i64 %packed, {lanes}
  %into_next = getelementptr i8, ptr %into, i64 %size
  %pack_more = icmp slt i64 %packed_next, %limit
  br i1 %pack_more, label %packing, label %running
running:
  call void @run(ptr %scratch, ptr %data, ptr %into_next, i64 %size)
  br label %unpacking
unpacking:
  %unpacked = phi i64 [ %state, %running ], [ %following, %unpacking ]
  %from = phi ptr [ %scratch, %running ], [ %from_next, %unpacking ]
  call void @unpack(ptr %args, ptr %steps, ptr %data, ptr %from, i64 %unpacked, i64 %last)
  %following = add i64 %unpacked, {lanes}
  %from_next = getelementptr i8, ptr %from, i64 %size
  %unpack_more = icmp slt i64 %following, %limit
  br i1 %unpack_more, label %unpacking, label %after
after:
  %more = icmp slt i64 %following, %states
  br i1 %more, label %group, label %end
end:
  %own = icmp eq ptr %large, null
  br i1 %own, label %done, label %release_memory
release_memory:
{_entry("free", Data.FREE)}
  call void %free(ptr %large)
  br label %done
done:
{restore}  ret void
}}
"""
