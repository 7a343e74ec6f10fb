"""Writes the LLVM IR of the loop of an iteration.

Trajectories are advanced in groups of `lanes`, and as many groups together, call by call, as there are streams, each in a scratch memory of
its own: states, rows of the table and constants are packed into the first slots, the program runs, and its results become the states.
"""

from __future__ import annotations

from collections.abc import Iterable

from catena.native.llvm.layout import ALIGN, Data

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


def _fields(*names: str) -> str:
    """Return the IR that loads fields of the task."""
    lines = []
    for name in names:
        kind = "ptr" if name in _POINTERS else "i64"
        lines.append(f"  %{name}_at = getelementptr i64, ptr %task, i64 {TASK.index(name)}\n  %{name} = load {kind}, ptr %{name}_at")
    return "\n".join(lines)


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)


class _Writer:
    """Writes the functions of the loop, for groups of so many lanes."""

    def __init__(self, lanes: int) -> None:
        self.lanes = range(lanes)
        self.vector, self.truth, self.integers = f"<{lanes} x double>", f"<{lanes} x i1>", f"<{lanes} x i64>"
        self.aligned = f"align {min(8 * lanes, ALIGN)}"
        self.any = f"call i1 @llvm.vector.reduce.or.v{lanes}i1({self.truth}"
        self.pointers = f"[{lanes} x ptr]"

    def written(self, streams: int) -> str:
        """Return all functions."""
        declared = f"\ndeclare i1 @llvm.vector.reduce.or.v{len(self.lanes)}i1({self.truth})\n"
        return declared + self._rows() + self._begin() + self._active() + self._before() + self._after() + self._iterate(streams)

    def _pointers(self, kind: int) -> str:
        return f"getelementptr {self.pointers}, ptr %group, i64 {kind}"

    def _rows(self) -> str:
        """Return the copies between memory, a pointer per lane, and slots: consecutive ones, or those of results."""
        vector, lanes = self.vector, self.lanes
        places = _joined(f"  %a{i} = getelementptr ptr, ptr %pointers, i64 {i}\n  %p{i} = load ptr, ptr %a{i}" for i in lanes)
        entries = _joined(f"  %e{i} = getelementptr double, ptr %p{i}, i64 %i" for i in lanes)
        packed = ["poison", *[f"%v{i}" for i in lanes]]
        pack = _joined(
            f"  %x{i} = load double, ptr %e{i}\n  %v{i} = insertelement {vector} {packed[i]}, double %x{i}, i32 {i}" for i in lanes
        )
        unpack = _joined(f"  %x{i} = extractelement {vector} %v, i32 {i}\n  store double %x{i}, ptr %e{i}" for i in lanes)

        def function(name: str, before: str, body: str, more: str = "") -> str:
            return f"""
define internal void @{name}(ptr noalias %slots, {more}ptr noalias readonly %pointers, i64 %count) nounwind {{
entry:
{places}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %exit
body:
{before}
{entries}
{body}
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}}
"""

        row = f"  %place = getelementptr {vector}, ptr %slots, i64 %i"
        result = """  %output = getelementptr i32, ptr %outputs, i64 %i
  %offset = load i32, ptr %output
  %long = zext i32 %offset to i64
  %place = getelementptr i8, ptr %slots, i64 %long"""
        unpack = f"  %v = load {vector}, ptr %place, {self.aligned}\n{unpack}"
        return (
            function("pack_rows", row, f"{pack}\n  store {vector} {packed[-1]}, ptr %place, {self.aligned}")
            + function("unpack_rows", row, unpack)
            + function("unpack_results", result, unpack, "ptr noalias readonly %outputs, ")
        )

    def _begin(self) -> str:
        """Return `@begin`: the pointers of a group of trajectories, their states and constants packed into slots."""
        lines = []
        for i in self.lanes:
            lines.append(f"""  %far{i} = add i64 %first, {i}
  %which{i} = call i64 @llvm.smin.i64(i64 %far{i}, i64 %last)""")
            for name in ("state", "table", "record", "constants"):
                lines.append(f"""  %{name}_o{i} = mul i64 %which{i}, %{name}_stride
  %{name}_p{i} = getelementptr i8, ptr %{name}, i64 %{name}_o{i}
  %{name}_a{i} = getelementptr ptr, ptr %{name}_pointers, i64 {i}
  store ptr %{name}_p{i}, ptr %{name}_a{i}""")
        return f"""
define internal void @begin(ptr %task, ptr %scratch, ptr %group, i64 %first) nounwind {{
{_fields(*(name for name in TASK if name not in ("scratch", "sink")))}
  %last = sub i64 %trajectories, 1
  %state_stride = mul i64 %state_size, 8
  %state_pointers = {self._pointers(_STATE)}
  %table_pointers = {self._pointers(_TABLE)}
  %record_pointers = {self._pointers(_RECORD)}
  %constants_pointers = {self._pointers(_OTHER)}
{_joined(lines)}
  call void @pack_rows(ptr %scratch, ptr %state_pointers, i64 %state_size)
  %constants_first = add i64 %state_size, %row_size
  %constant_slots = getelementptr {self.vector}, ptr %scratch, i64 %constants_first
  call void @pack_rows(ptr %constant_slots, ptr %constants_pointers, i64 %constants_size)
  ret void
}}
"""

    def _active(self) -> str:
        """Return `@active`: which lanes of a group go on."""
        vector = self.vector
        return f"""
define internal {self.truth} @active(ptr %task, ptr %scratch) nounwind alwaysinline {{
{_fields("record_rows")}
  %rows_number = sitofp i64 %record_rows to double
  %rows_one = insertelement {vector} poison, double %rows_number, i32 0
  %rows = shufflevector {vector} %rows_one, {vector} poison, <{len(self.lanes)} x i32> zeroinitializer
  %done_at = getelementptr {vector}, ptr %scratch, i64 {DONE}
  %done = load {vector}, ptr %done_at, {self.aligned}
  %row_at = getelementptr {vector}, ptr %scratch, i64 {ROW}
  %row_now = load {vector}, ptr %row_at, {self.aligned}
  %going = fcmp oeq {vector} %done, zeroinitializer
  %room = fcmp olt {vector} %row_now, %rows
  %active = and {self.truth} %going, %room
  ret {self.truth} %active
}}

define internal i1 @goes_on(ptr %task, ptr %scratch) nounwind {{
  %active = call {self.truth} @active(ptr %task, ptr %scratch)
  %any = {self.any} %active)
  ret i1 %any
}}
"""

    def _before(self) -> str:
        """Return `@before`: the rows of the table that the lanes of a group are at, packed into slots."""
        lines = _joined(
            f"""  %from{i} = getelementptr ptr, ptr %tables, i64 {i}
  %table{i} = load ptr, ptr %from{i}
  %index{i} = extractelement {self.integers} %index, i32 {i}
  %row{i} = call i64 @llvm.smin.i64(i64 %index{i}, i64 %table_last)
  %offset{i} = mul i64 %row{i}, %table_row
  %at{i} = getelementptr i8, ptr %table{i}, i64 %offset{i}
  %to{i} = getelementptr ptr, ptr %pointers, i64 {i}
  store ptr %at{i}, ptr %to{i}"""
            for i in self.lanes
        )
        return f"""
define internal void @before(ptr %task, ptr %scratch, ptr %group) nounwind {{
entry:
{_fields("state_size", "row_size", "table_row", "table_rows")}
  %nothing = icmp eq i64 %row_size, 0
  br i1 %nothing, label %exit, label %read
read:
  %tables = {self._pointers(_TABLE)}
  %pointers = {self._pointers(_OTHER)}
  %table_last = sub i64 %table_rows, 1
  %table_entry = getelementptr {self.vector}, ptr %scratch, i64 {TABLE}
  %table_now = load {self.vector}, ptr %table_entry, {self.aligned}
  %index = fptosi {self.vector} %table_now to {self.integers}
{lines}
  %row_slots = getelementptr {self.vector}, ptr %scratch, i64 %state_size
  call void @pack_rows(ptr %row_slots, ptr %pointers, i64 %row_size)
  br label %exit
exit:
  ret void
}}
"""

    def _after(self) -> str:
        """Return `@after`: the results of a group become its state, and where its rows have grown, records."""
        vector, truth, aligned = self.vector, self.truth, self.aligned
        # a lane that wrote nothing points to a place that nobody reads
        lines = _joined(
            f"""  %from{i} = getelementptr ptr, ptr %tables, i64 {i}
  %record{i} = load ptr, ptr %from{i}
  %index{i} = extractelement {self.integers} %index, i32 {i}
  %offset{i} = mul i64 %index{i}, %record_row
  %at{i} = getelementptr i8, ptr %record{i}, i64 %offset{i}
  %grew{i} = extractelement {truth} %grown, i32 {i}
  %place{i} = select i1 %grew{i}, ptr %at{i}, ptr %sink
  %to{i} = getelementptr ptr, ptr %pointers, i64 {i}
  store ptr %place{i}, ptr %to{i}"""
            for i in self.lanes
        )
        return f"""
define internal void @after(ptr %task, ptr %data, ptr %scratch, ptr %group) nounwind {{
entry:
{_fields("state_size", "record_size", "record_row", "sink")}
  %outputs_at = getelementptr ptr, ptr %data, i64 {Data.OUTPUTS:d}
  %outputs = load ptr, ptr %outputs_at
  %active = call {truth} @active(ptr %task, ptr %scratch)
  %row_at = getelementptr {vector}, ptr %scratch, i64 {ROW}
  %row_now = load {vector}, ptr %row_at, {aligned}
  %new_row_place = getelementptr i32, ptr %outputs, i64 {ROW}
  %new_row_offset = load i32, ptr %new_row_place
  %new_row_long = zext i32 %new_row_offset to i64
  %new_row_at = getelementptr i8, ptr %scratch, i64 %new_row_long
  %new_row = load {vector}, ptr %new_row_at, {aligned}
  %grows = fcmp ogt {vector} %new_row, %row_now
  %grown = and {truth} %grows, %active
  %store_any = {self.any} %grown)
  br i1 %store_any, label %store, label %keep
store:
  %tables = {self._pointers(_RECORD)}
  %pointers = {self._pointers(_OTHER)}
  %index = fptosi {vector} %row_now to {self.integers}
{lines}
  %record_outputs = getelementptr i32, ptr %outputs, i64 %state_size
  call void @unpack_results(ptr %scratch, ptr %record_outputs, ptr %pointers, i64 %record_size)
  br label %keep
keep:
  %i = phi i64 [ 0, %entry ], [ 0, %store ], [ %i_next, %keeping ]
  %i_more = icmp slt i64 %i, %state_size
  br i1 %i_more, label %keeping, label %exit
keeping:
  %from_place = getelementptr i32, ptr %outputs, i64 %i
  %from_offset = load i32, ptr %from_place
  %from_long = zext i32 %from_offset to i64
  %from = getelementptr i8, ptr %scratch, i64 %from_long
  %new = load {vector}, ptr %from, {aligned}
  %into = getelementptr {vector}, ptr %scratch, i64 %i
  %old = load {vector}, ptr %into, {aligned}
  %kept = select {truth} %active, {vector} %new, {vector} %old
  store {vector} %kept, ptr %into, {aligned}
  %i_next = add i64 %i, 1
  br label %keep
exit:
  ret void
}}
"""

    def _iterate(self, streams: int) -> str:
        """Return `@iterate(task, data)`: sets of as many groups as there are streams, each iterated until all its lanes have stopped."""

        def each(name: str, body: str, after: str, carried: str = "") -> str:
            """Return a loop over the groups of the set, from the block `name` on to the block `after`."""
            return f"""{name}:
  br label %{name}_each
{name}_each:
  %{name}_at = phi ptr [ %scratch, %{name} ], [ %{name}_at_next, %{name}_each ]
  %{name}_group = phi ptr [ %groups, %{name} ], [ %{name}_group_next, %{name}_each ]
{carried}{body.replace("AT", f"%{name}_at").replace("GROUP", f"%{name}_group")}
  %{name}_at_next = getelementptr i8, ptr %{name}_at, i64 %size
  %{name}_group_next = getelementptr [4 x {self.pointers}], ptr %{name}_group, i64 1
  %{name}_more = icmp ult ptr %{name}_at_next, %stop
  br i1 %{name}_more, label %{name}_each, label %{after}
"""

        width = len(self.lanes)
        begin = f"  call void @begin(ptr %task, ptr AT, ptr GROUP, i64 %begin_first)\n  %begin_next = add i64 %begin_first, {width}"
        begins = each("begin", begin, "head", "  %begin_first = phi i64 [ %first, %begin ], [ %begin_next, %begin_each ]\n")
        ask = "  %ask_this = call i1 @goes_on(ptr %task, ptr AT)\n  %ask_any = or i1 %ask_before, %ask_this"
        asks = each("ask", ask, "asked", "  %ask_before = phi i1 [ false, %ask ], [ %ask_any, %ask_each ]\n")
        befores = each("before", "  call void @before(ptr %task, ptr AT, ptr GROUP)\n  call void @turn(ptr AT, ptr %data)", "work")
        afters = each("after", "  call void @after(ptr %task, ptr %data, ptr AT, ptr GROUP)", "tail")
        ends = each("finish", "  call void @unpack_rows(ptr AT, ptr GROUP, i64 %state_size)", "finished")
        return f"""
define void @iterate(ptr %task, ptr %data) nounwind {{
entry:
  %groups = alloca [{streams} x [4 x {self.pointers}]], align {ALIGN}
{_fields("trajectories", "iterations", "scratch", "state_size")}
  %size_at = getelementptr i64, ptr %data, i64 {Data.SCRATCH:d}
  %size = load i64, ptr %size_at
  br label %set
set:
  %first = phi i64 [ 0, %entry ], [ %following, %finished ]
  %left = sub i64 %trajectories, %first
  %raised = add i64 %left, {width - 1}
  %wanted = sdiv i64 %raised, {width}
  %number = call i64 @llvm.smin.i64(i64 %wanted, i64 {streams})
  %bytes = mul i64 %number, %size
  %stop = getelementptr i8, ptr %scratch, i64 %bytes
  br label %begin
{begins}head:
  %count = phi i64 [ 0, %begin_each ], [ %count_next, %tail ]
  br label %ask
{asks}asked:
  %in_time = icmp slt i64 %count, %iterations
  %more = and i1 %ask_any, %in_time
  br i1 %more, label %before, label %finish
{befores}work:
  call void @run(ptr %scratch, ptr %data, ptr %stop, i64 %size)
  br label %after
{afters}tail:
  %count_next = add i64 %count, 1
  br label %head
{ends}finished:
  %following = add i64 %first, {width * streams}
  %again = icmp slt i64 %following, %trajectories
  br i1 %again, label %set, label %end
end:
  ret void
}}
"""


def repeat(lanes: int, streams: int) -> str:
    """Return the IR of `@iterate(task, data)` and its parts, over `@turn` and `@run` of `catena.native.llvm.batch_loop`."""
    return _Writer(lanes).written(streams)
