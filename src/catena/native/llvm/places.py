"""Where the calls of a program find their values: a row of places for each call, and what the code of its block makes of the row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from catena.graph import Program

#: Values no farther apart than this [slots], and as far in all calls of a block, share an entry of the row. The code of a block then serves
#: mechanisms of any size, whose inputs are farther apart the more coordinates there are.
NEAR = 8


class Place(NamedTuple):
    """A place of a block's value: so many slots from what an entry of the row says, or, without an entry, from the first slot."""

    entry: int | None
    offset: int


class Places(NamedTuple):
    """By block the places of what it reads, and of the first of each run of its results; and the row of slots of every call."""

    of_block: dict[int, list[Place]]
    rows: list[list[int]]


def places_of(program: Program) -> Places:
    """Return the places of a program's values. Blocks of libraries, whose code knows no program, have an entry for each of them.

    >>> from catena.graph.program import Block, Call
    >>> block = Block(3, 0, (("add", 0, 1), ("add", 3, 2)), (4,))
    >>> places = places_of(Program((block,), (Call(0, (0, 2, 20), (), (30,)), Call(0, (4, 6, 20), (), (31,))), 32, (31,)))
    >>> [tuple(place) for place in places.of_block[0]], places.rows
    ([(0, 0), (0, 2), (1, 0), (2, 0)], [[0, 20, 30], [4, 20, 31]])
    """
    fixed = program.fixed
    rows = [[*call.reads, *(call.writes[i] for i in program.blocks[call.block].starts)] for call in program.calls]
    calls: dict[int, list[int]] = {}
    for k, call in enumerate(program.calls):
        if call.system is None and call.block not in fixed:
            calls.setdefault(call.block, []).append(k)
    if len(rows) == 1 and calls:
        (block,) = calls
        return Places({block: [Place(None, slot) for slot in rows[0]]}, [[]])
    of_block = {}
    for block, which in calls.items():
        table = np.array([rows[k] for k in which])
        moves = table - table[:1]  # from call to call
        groups: dict[bytes, list[int]] = {}
        for i in np.argsort(table[0], kind="stable").tolist():
            groups.setdefault(moves[:, i].tobytes(), []).append(i)
        base_of: dict[int, int] = {}
        for group in groups.values():
            base = last = group[0]
            for i in group:
                base = i if table[0, i] - table[0, last] > NEAR else base
                base_of[i], last = base, i
        bases = sorted({*base_of.values()})
        offsets = table[0] - table[0, [base_of[i] for i in range(table.shape[1])]]
        of_block[block] = [Place(bases.index(base_of[i]), offset) for i, offset in enumerate(offsets.tolist())]
        for k, row in zip(which, table[:, bases].tolist(), strict=True):
            rows[k] = row
    return Places(of_block, rows)
