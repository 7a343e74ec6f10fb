"""Writes the LLVM IR of the loop of an iteration.

Trajectories are advanced in groups of `lanes`, and as many groups together, call by call, as there are streams, each in a scratch memory of
its own: states, rows of the table and constants are packed into the first slots, the program runs, and its results become the states.
"""

from __future__ import annotations

from collections.abc import Callable

from catena.native.llvm.layout import ALIGN, Data
from catena.native.llvm.lines import Lines

#: Entries of the state that steer the loop.
DONE, ROW, TABLE = 0, 1, 2

TASK = (
    "trajectories", "iterations", "state", "table", "table_stride", "table_row", "table_rows", "constants", "constants_stride",
    "record", "record_stride", "record_row", "record_rows", "scratch", "sink", "state_size", "row_size", "constants_size",
    "record_size",
)  # fmt: skip

_POINTERS = ("state", "table", "constants", "record", "scratch", "sink")

#: Pointers per lane that a group of trajectories keeps.
_STATE, _TABLE, _RECORD, _OTHER = range(4)


class _Writer(Lines):
    """Writes a function of the loop, of a task, the scratch memory of a group of trajectories, and its pointers."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        self.truth, self.integers, self.pointers = f"<{lanes} x i1>", f"<{lanes} x i64>", f"[{lanes} x ptr]"

    def fields(self, *names: str) -> list[str]:
        """Return fields of the task."""
        return [self.get("ptr" if name in _POINTERS else "i64", self.at("%task", TASK.index(name), "i64")) for name in names]

    def group(self, kind: int) -> str:
        """Return the place of pointers of the group."""
        return self.at("%group", kind, self.pointers)

    def point(self, kind: int, pointers: list[str]) -> str:
        """Write pointers of the group, and return their place."""
        place = self.group(kind)
        for lane, pointer in enumerate(pointers):
            self.set("ptr", self.at(place, lane, "ptr"), pointer)
        return place

    def shifted(self, kind: int, rows: list[str], stride: str) -> list[str]:
        """Return pointers of the group, each further by so many rows."""
        bases = [self.get("ptr", self.at(self.group(kind), lane, "ptr")) for lane in range(self.lanes)]
        return [self.at(base, self.times(row, stride), "i8") for base, row in zip(bases, rows, strict=True)]

    def whole(self, vector: str) -> list[str]:
        """Return the numbers of a vector as integers."""
        integers = self.new(f"fptosi {self.vector} {vector} to {self.integers}")
        return [self.new(f"extractelement {self.integers} {integers}, i32 {lane}") for lane in range(self.lanes)]

    def any(self, truths: str) -> str:
        return self.new(f"call i1 @llvm.vector.reduce.or.v{self.lanes}i1({self.truth} {truths})")

    def active(self) -> str:
        """Return which lanes of a group go on."""
        (limit,) = self.fields("record_rows")
        rows = self.broadcast(self.new(f"sitofp i64 {limit} to double"))
        going = self.new(f"fcmp oeq {self.vector} {self.load('%scratch', DONE)}, zeroinitializer")
        room = self.new(f"fcmp olt {self.vector} {self.load('%scratch', ROW)}, {rows}")
        return self.new(f"and {self.truth} {going}, {room}")


def _rows(lanes: int) -> str:
    """Return the copies between memory, a pointer per lane, and slots: consecutive ones, or those of results."""

    def function(name: str, pack: bool = False, outputs: str = "") -> str:
        code = Lines(lanes)
        pointers = [code.get("ptr", code.at("%pointers", lane, "ptr")) for lane in range(lanes)]

        def copy(i: str) -> None:
            slot = code.place(i, "%outputs", "%slots") if outputs else code.at("%slots", i)
            entries = [code.at(pointer, i, "double") for pointer in pointers]
            if pack:
                code.store(code.gathered(entries), slot)
            else:
                code.scatter(code.load(slot), entries)

        code.loop("0", "%count", copy)
        return code.function(f"internal void @{name}(ptr noalias %slots, {outputs}ptr noalias readonly %pointers, i64 %count)")

    results = function("unpack_results", outputs="ptr noalias readonly %outputs, ")
    return function("pack_rows", pack=True) + function("unpack_rows") + results


def _begin(lanes: int) -> str:
    """Return `@begin`: the pointers of a group of trajectories, their states and constants packed into slots."""
    code = _Writer(lanes)
    trajectories, state_size, row_size, constants_size = code.fields("trajectories", "state_size", "row_size", "constants_size")
    last = code.plus(trajectories, -1)
    which = [code.least(code.plus("%first", lane), last) for lane in range(lanes)]
    strides = [code.times(state_size, 8), *code.fields("table_stride", "record_stride", "constants_stride")]
    starts = code.fields("state", "table", "record", "constants")
    states, _, _, constants = (
        code.point(kind, [code.at(start, code.times(i, stride), "i8") for i in which])
        for kind, start, stride in zip((_STATE, _TABLE, _RECORD, _OTHER), starts, strides, strict=True)
    )
    code.append(f"  call void @pack_rows(ptr %scratch, ptr {states}, i64 {state_size})")
    slots = code.at("%scratch", code.plus(state_size, row_size))
    code.append(f"  call void @pack_rows(ptr {slots}, ptr {constants}, i64 {constants_size})")
    return code.function("internal void @begin(ptr %task, ptr %scratch, ptr %group, i64 %first)")


def _goes_on(lanes: int) -> str:
    """Return `@goes_on`: whether any lane of a group does."""
    code = _Writer(lanes)
    any_active = code.any(code.active())
    return code.function("internal i1 @goes_on(ptr %task, ptr %scratch)", result=f"ret i1 {any_active}")


def _before(lanes: int) -> str:
    """Return `@before`: the rows of the table that the lanes of a group are at, packed into slots."""
    code = _Writer(lanes)
    state_size, row_size, table_row, table_rows = code.fields("state_size", "row_size", "table_row", "table_rows")

    def read() -> None:
        last = code.plus(table_rows, -1)
        rows = [code.least(row, last) for row in code.whole(code.load("%scratch", TABLE))]
        pointers = code.point(_OTHER, code.shifted(_TABLE, rows, table_row))
        code.append(f"  call void @pack_rows(ptr {code.at('%scratch', state_size)}, ptr {pointers}, i64 {row_size})")

    code.when(code.new(f"icmp ne i64 {row_size}, 0"), read)
    return code.function("internal void @before(ptr %task, ptr %scratch, ptr %group)")


def _after(lanes: int) -> str:
    """Return `@after`: the results of a group become its state, and where its rows have grown, records."""
    code = _Writer(lanes)
    vector, truth = code.vector, code.truth
    state_size, record_size, record_row, sink = code.fields("state_size", "record_size", "record_row", "sink")
    outputs, active, row = code.entry("%data", Data.OUTPUTS), code.active(), code.load("%scratch", ROW)
    grows = code.new(f"fcmp ogt {vector} {code.load(code.place(ROW, outputs))}, {row}")
    grown = code.new(f"and {truth} {grows}, {active}")

    def record() -> None:
        grew = [code.new(f"extractelement {truth} {grown}, i32 {lane}") for lane in range(lanes)]
        places = zip(grew, code.shifted(_RECORD, code.whole(row), record_row), strict=True)
        # a lane that wrote nothing points to a place that nobody reads
        pointers = code.point(_OTHER, [code.new(f"select i1 {wrote}, ptr {place}, ptr {sink}") for wrote, place in places])
        results = code.at(outputs, state_size, "i32")
        code.append(f"  call void @unpack_results(ptr %scratch, ptr {results}, ptr {pointers}, i64 {record_size})")

    def keep(i: str) -> None:
        new, old = code.load(code.place(i, outputs)), code.load("%scratch", i)
        code.store(code.new(f"select {truth} {active}, {vector} {new}, {vector} {old}"), "%scratch", i)

    code.when(code.any(grown), record)
    code.loop("0", state_size, keep)
    return code.function("internal void @after(ptr %task, ptr %data, ptr %scratch, ptr %group)")


def _iterate(lanes: int, streams: int) -> str:
    """Return `@iterate(task, data)`: sets of as many groups as there are streams, each iterated until all its lanes have stopped."""
    code = _Writer(lanes)
    groups, together = code.new(f"alloca [{streams} x [4 x {code.pointers}]], align {ALIGN}"), lanes * streams
    trajectories, iterations, scratch, state_size = code.fields("trajectories", "iterations", "scratch", "state_size")
    size = code.entry("%data", Data.SCRATCH, "i64")

    def advance(first: str) -> None:
        """Write the iterations of a set."""
        stop = code.end_of_set(first, trajectories, scratch, size, streams)

        def each(body: Callable[[str, str], None]) -> None:
            """Write a loop over the scratch memories and pointers of the groups of the set."""
            group = code.variable("ptr", groups)

            def one(memory: str) -> None:
                pointers = code.get("ptr", group)
                body(memory, pointers)
                code.set("ptr", group, code.at(pointers, 1, f"[4 x {code.pointers}]"))

            code.walk(scratch, stop, size, one)

        def begin(memory: str, group: str) -> None:
            i = code.get("i64", number)
            code.append(f"  call void @begin(ptr %task, ptr {memory}, ptr {group}, i64 {i})")
            code.set("i64", number, code.plus(i, lanes))

        def ask(memory: str, group: str) -> None:
            this = code.new(f"call i1 @goes_on(ptr %task, ptr {memory})")
            code.set("i1", going, code.new(f"or i1 {code.get('i1', going)}, {this}"))

        def before(memory: str, group: str) -> None:
            code.append(f"  call void @before(ptr %task, ptr {memory}, ptr {group})")
            code.append(f"  call void @turn(ptr {memory}, ptr %data)")

        def work() -> None:
            each(before)
            code.append(f"  call void @run(ptr {scratch}, ptr %data, ptr {stop}, i64 {size})")
            each(lambda memory, group: code.append(f"  call void @after(ptr %task, ptr %data, ptr {memory}, ptr {group})"))

        def iteration() -> str:
            code.set("i1", going, "false")
            each(ask)
            i = code.get("i64", count)
            code.set("i64", count, code.plus(i, 1))
            more = code.new(f"and i1 {code.get('i1', going)}, {code.new(f'icmp slt i64 {i}, {iterations}')}")
            code.when(more, work)
            return more

        number, count, going = code.variable("i64", first), code.variable("i64", "0"), code.variable("i1", "false")
        each(begin)
        code.repeat(iteration)
        each(lambda memory, group: code.append(f"  call void @unpack_rows(ptr {memory}, ptr {group}, i64 {state_size})"))

    code.loop("0", trajectories, advance, together)
    return code.function("void @iterate(ptr %task, ptr %data)")


def repeat(lanes: int, streams: int) -> str:
    """Return the IR of `@iterate(task, data)` and its parts, over `@turn` and `@run` of `catena.native.llvm.batch_loop`."""
    declared = f"\ndeclare i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1>)\n"
    parts = (_rows, _begin, _goes_on, _before, _after)
    return declared + "".join(part(lanes) for part in parts) + _iterate(lanes, streams)
