"""Writes the LLVM IR of a Python function for one state: what a call of a gufunc does, for arrays that are as they should be.

The function is the same for all kernels, and is compiled once; its `self` is an array of integers, the table of a kernel. Arguments that
are arrays of doubles of just the right shapes, contiguous and aligned, or Python floats, go straight to the kernel's loop; the results are
new arrays, or those given after the arguments. For anything else it returns `NotImplemented`.
"""

from __future__ import annotations

from enum import IntEnum

from catena.native.llvm.lines import Lines

#: Operands of a kernel at most, and axes of an operand.
OPERANDS, AXES = 32, 4

#: Entries of the description of an operand: number of axes, sizes along them, and the size of its memory [bytes].
DESCRIPTION = AXES + 2

#: Bytes from the start of a Python object to its class, and, behind a head of two pointers, to the number of a float and to fields of a
#: NumPy array, as NumPy's public header file has them: its memory, number of axes, sizes along them, type and flags.
_CLASS, _NUMBER = 8, 16
BUFFER, NDIM, SHAPE, TYPE, FLAGS = 16, 24, 32, 56, 64

#: NumPy's flags of an array: C-contiguous and aligned; these and writeable.
_READ, _WRITE = 0x101, 0x501


class Table(IntEnum):
    """Entries of the table of a kernel, 8 bytes each; descriptions of its operands follow."""

    LOOP = 0  # what the gufunc runs, and its data
    DATA = 1
    STEPS = 2  # the strides of operands
    INPUTS = 3  # numbers of operands
    OUTPUTS = 4
    GIVEN = 5  # 1 if arrays for the results are given
    NOT_IMPLEMENTED = 6
    ARRAY = 7  # the classes of arrays and of numbers, and NumPy's type of doubles
    FLOAT = 8
    NUMBER = 9
    DOUBLE = 10
    EMPTY = 11  # PyArray_Empty
    RETURN = 12  # PyArray_Return
    NEW_TUPLE = 13  # PyTuple_New
    SET_ITEM = 14  # PyTuple_SetItem
    INCREF = 15  # Py_IncRef
    DECREF = 16  # Py_DecRef
    OCCURRED = 17  # PyErr_Occurred
    CLEAR = 18  # PyErr_Clear


def single_call() -> str:
    """Return the IR of `@single(self, args, count)`, which Python calls as METH_FASTCALL; a module of its own."""
    return _SingleCall(1, "i64").written()


class _SingleCall(Lines):
    """Writes the function; `operands` are pointers to the numbers of inputs and results, `made` to the arrays of results."""

    def written(self) -> str:
        new, append, loop = self.new, self.append, self.loop
        self._elsewhere, self._failed = self.label(), self.label()
        self._table = self.get("ptr", self.at("%self", BUFFER, "i8"))
        self._operands, self._made, dims = new(f"alloca [{OPERANDS} x ptr]"), new(f"alloca [{OPERANDS} x ptr]"), new("alloca i64")
        flag = new("alloca double")
        self._inputs, self._outputs = self._entry(Table.INPUTS, "i64"), self._entry(Table.OUTPUTS, "i64")
        self._given = new(f"icmp ne i64 {self._entry(Table.GIVEN, 'i64')}, 0")
        both = self.plus(self._inputs, self._outputs)
        self._unless(new(f"icmp eq i64 %count, {new(f'select i1 {self._given}, i64 {both}, i64 {self._inputs}')}"), self._elsewhere)
        self._reached = self.variable("i64", "0")

        loop("0", self._inputs, self._take)
        self.when(self._given, lambda: loop("0", self._outputs, self._accept), lambda: loop("0", self._outputs, self._create))
        self.set("i64", self._reached, self._outputs)
        self.set("i64", dims, "1")
        self.set("double", flag, "0.0")
        self.set("ptr", self.at(self._operands, both, "ptr"), flag)  # of a kernel that has one, behind its results
        append(f"  call void {self._entry(Table.LOOP)}(ptr {self._operands}, ptr {dims}, ptr {self._entry(Table.STEPS)}, "
               f"ptr {self._entry(Table.DATA)})")  # fmt: skip
        self._unless(new(f"icmp eq ptr {new(f'call ptr {self._entry(Table.OCCURRED)}()')}, null"), self._failed)
        several = self.label()
        self._unless(new(f"fcmp oeq double {self.get('double', flag)}, 0.0"), self._failed)

        self._unless(new(f"icmp eq i64 {self._outputs}, 1"), several)
        append(f"  ret ptr {self._owned('0')}")
        append(f"{several}:")
        results = new(f"call ptr {self._entry(Table.NEW_TUPLE)}(i64 {self._outputs})")
        self._unless(new(f"icmp ne ptr {results}, null"), self._failed)
        loop("0", self._outputs, lambda i: self._put(results, i))
        append(f"  ret ptr {results}")

        append(f"{self._failed}:")  # by a flag, or for want of memory, which the gufunc will find again and tell
        self._drop()
        append(f"  call void {self._entry(Table.CLEAR)}()")
        append(f"  br label %{self._elsewhere}")
        append(f"{self._elsewhere}:")
        self._count("INCREF", self._entry(Table.NOT_IMPLEMENTED))
        result = f"ret ptr {self._entry(Table.NOT_IMPLEMENTED)}"
        return self.function("ptr @single(ptr %self, ptr %args, i64 %count)", result=result) + "\n!2 = !{}\n"

    def _entry(self, i: int, kind: str = "ptr") -> str:
        return self.entry(self._table, i, kind)

    def _field(self, thing: str, offset: int, kind: str = "ptr") -> str:
        return self.get(kind, self.at(thing, offset, "i8"))

    def _described(self, i: str, what: int) -> str:
        """Return an entry of the description of an operand."""
        return self.new(f"load i64, ptr {self._description(i, what)}, !invariant.load !2")

    def _description(self, i: str, what: int) -> str:
        return self.at(self._table, self.plus(self.times(i, DESCRIPTION), len(Table) + what))

    def _count(self, change: str, thing: str) -> None:
        """Change the number of references to an object."""
        self.append(f"  call void {self._entry(Table[change])}(ptr {thing})")

    def _unless(self, condition: str, target: str) -> None:
        """Go on where a condition holds, else to a label."""
        on = self.label()
        self += [f"  br i1 {condition}, label %{on}, label %{target}", f"{on}:"]

    def _is(self, thing: str, kind: Table) -> str:
        return self.new(f"icmp eq ptr {self._field(thing, _CLASS)}, {self._entry(kind)}")

    def _take(self, i: str) -> None:
        """Take an input."""
        given, place = self.get("ptr", self.at("%args", i, "ptr")), self.at(self._operands, i, "ptr")

        def number() -> None:
            known = self.new(f"or i1 {self._is(given, Table.FLOAT)}, {self._is(given, Table.NUMBER)}")
            self._unless(known, self._elsewhere)
            self._unless(self.new(f"icmp eq i64 {self._described(i, 0)}, 0"), self._elsewhere)
            self.set("ptr", place, self.at(given, _NUMBER, "i8"))

        def numbers() -> None:
            self.set("ptr", place, self._memory(given, i, _READ))

        self.when(self._is(given, Table.ARRAY), numbers, number)

    def _memory(self, given: str, i: str, flags: int) -> str:
        """Return the memory of an array that is as it should be."""
        self._unless(self.new(f"icmp eq ptr {self._field(given, TYPE)}, {self._entry(Table.DOUBLE)}"), self._elsewhere)
        found = self.new(f"and i32 {self._field(given, FLAGS, 'i32')}, {flags}")
        self._unless(self.new(f"icmp eq i32 {found}, {flags}"), self._elsewhere)
        axes = self.new(f"sext i32 {self._field(given, NDIM, 'i32')} to i64")
        self._unless(self.new(f"icmp eq i64 {axes}, {self._described(i, 0)}"), self._elsewhere)
        sizes, wanted = self._field(given, SHAPE), self._description(i, 1)

        def same(axis: str) -> None:
            both = (self.get("i64", self.at(table, axis)) for table in (sizes, wanted))
            self._unless(self.new(f"icmp eq i64 {', '.join(both)}"), self._elsewhere)

        self.loop("0", axes, same)
        return self._field(given, BUFFER)

    def _accept(self, i: str) -> None:
        """Take an array to write to, which shares no memory with the inputs."""
        at = self.plus(self._inputs, i)
        given = self.get("ptr", self.at("%args", at, "ptr"))
        self._unless(self._is(given, Table.ARRAY), self._elsewhere)
        start = self._memory(given, at, _WRITE)
        end = self.at(start, self._described(at, AXES + 1), "i8")

        def apart(j: str) -> None:
            other = self.get("ptr", self.at(self._operands, j, "ptr"))
            beyond = self.at(other, self._described(j, AXES + 1), "i8")
            below, above = self.new(f"icmp ule ptr {end}, {other}"), self.new(f"icmp ule ptr {beyond}, {start}")
            self._unless(self.new(f"or i1 {below}, {above}"), self._elsewhere)

        self.loop("0", self._inputs, apart)
        self.set("ptr", self.at(self._operands, at, "ptr"), start)
        self.set("ptr", self.at(self._made, i, "ptr"), given)

    def _create(self, i: str) -> None:
        """Make an array for a result."""
        at, double = self.plus(self._inputs, i), self._entry(Table.DOUBLE)
        self._count("INCREF", double)
        axes, sizes = self.new(f"trunc i64 {self._described(at, 0)} to i32"), self._description(at, 1)
        fresh = self.new(f"call ptr {self._entry(Table.EMPTY)}(i32 {axes}, ptr {sizes}, ptr {double}, i32 0)")
        self.set("i64", self._reached, i)
        self._unless(self.new(f"icmp ne ptr {fresh}, null"), self._failed)
        self.set("ptr", self.at(self._made, i, "ptr"), fresh)
        self.set("ptr", self.at(self._operands, at, "ptr"), self._field(fresh, BUFFER))

    def _drop(self) -> None:
        """Let go of the arrays that were made."""

        def one(i: str) -> None:
            self._count("DECREF", self.get("ptr", self.at(self._made, i, "ptr")))

        self.when(self._given, lambda: None, lambda: self.loop("0", self.get("i64", self._reached), one))

    def _owned(self, i: str) -> str:
        """Return a result that the caller owns: a new array, a number if it has no axes; or the array that was given."""
        made = self.get("ptr", self.at(self._made, i, "ptr"))
        found = self.variable("ptr", made)
        number = self.new(f"icmp eq i64 {self._described(self.plus(self._inputs, i), 0)}, 0")

        def fresh() -> None:
            self.when(number, lambda: self.set("ptr", found, self.new(f"call ptr {self._entry(Table.RETURN)}(ptr {made})")))

        self.set("ptr", found, made)
        self.when(self._given, lambda: self._count("INCREF", made), fresh)
        return self.get("ptr", found)

    def _put(self, results: str, i: str) -> None:
        self.new(f"call i32 {self._entry(Table.SET_ITEM)}(ptr {results}, i64 {i}, ptr {self._owned(i)})")
