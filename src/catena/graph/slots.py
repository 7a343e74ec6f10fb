"""Which slots the values of a program stand in: as few as live at the same time, as nearly as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import accumulate

from catena.graph.program import Program


def in_runs(program: Program) -> Program:
    """Return the program with the results of each block in runs of those that are needed for the last time together, the longest first.

    Libraries stay as they are, and what they read and how many calls they take does not count: so the other blocks, and their code, do not
    depend on them.
    """
    fixed = program.fixed
    last = last_calls(program, fixed)
    steps = [0, *accumulate(call.block not in fixed for call in program.calls)]
    lives: list[list[list[int]]] = [[[] for _ in block.results] for block in program.blocks]
    for k, call in enumerate(program.calls):
        if call.system is None and call.block not in fixed:
            for life, slot in zip(lives[call.block], call.writes, strict=True):
                life.append(steps[last[slot]] - steps[k])
    blocks, orders = [], []
    for n, block in enumerate(program.blocks):
        runs: dict[tuple[int, ...], list[int]] = {}
        for i, life in enumerate(lives[n]):
            runs.setdefault(() if n in fixed else tuple(life), []).append(i)
        longest = sorted(runs, key=lambda life: -sum(life))
        orders.append([i for life in longest for i in runs[life]])
        if n not in fixed and runs:
            starts = tuple(accumulate((len(runs[life]) for life in longest[:-1]), initial=0))
            block = block._replace(results=tuple(block.results[i] for i in orders[n]), starts=starts)
        blocks.append(block)
    calls = tuple(
        call if call.system is not None else call._replace(writes=tuple(call.writes[i] for i in orders[call.block]))
        for call in program.calls
    )
    return program._replace(blocks=tuple(blocks), calls=calls)


def reuse_slots(program: Program, inputs: int, kept: int | None = None) -> Program:
    """Return the program with slots that are written again once nothing reads them any more; the first `kept`, if not all inputs, never.

    Runs of results stand in slots that follow each other. The one that lives longest in its call stands as low as there is room, the others
    as high: what is handed from call to call leaves no holes among the values that stay, and is in the processor's nearest cache.

    >>> from catena.graph.program import Block, Call
    >>> calls = [Call(0, (2 * k,), (), (2 * k + 1, 2 * k + 2)) for k in range(6)]
    >>> calls.append(Call(1, tuple(range(1, 13, 2)), (), (13,)))
    >>> copies, total = Block(1, 0, (("neg", 0), ("neg", 1)), (1, 2)), Block(6, 0, (("add", 0, 1),), (6,))
    >>> shorter = reuse_slots(Program((copies, total), tuple(calls), 14, (13,)), 1)
    >>> shorter.slots, [call.writes for call in shorter.calls[:4]]
    (9, [(1, 8), (2, 7), (3, 8), (4, 7)])
    """
    kept = inputs if kept is None else kept
    program = in_runs(program)
    last = last_calls(program)
    ends: list[list[int]] = [[] for _ in range(len(program.calls) + 1)]
    for slot, k in last.items():
        if slot >= kept:
            ends[k].append(slot)
    unread = [slot for slot in range(kept, inputs) if slot not in last]
    memory = _Memory(inputs, max(inputs, _most(program, inputs - len(unread), ends)))
    memory.free(unread)
    place = {slot: slot for slot in range(inputs)}
    runs = [block.runs for block in program.blocks]
    for k, call in enumerate(program.calls):
        parts = runs[call.block] if call.system is None else [(0, len(call.writes))]
        lives = [max(last[slot] for slot in call.writes[a:b]) for a, b in parts]
        for (a, b), life in zip(parts, lives, strict=True):
            first = memory.take(b - a, low=life == max(lives))
            place.update(zip(call.writes[a:b], range(first, first + b - a), strict=True))
        memory.free([place[slot] for slot in ends[k]])  # after the call, which must not write to what it reads

    def places(slots: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([place[slot] for slot in slots])

    calls = tuple(call._replace(reads=places(call.reads), writes=places(call.writes)) for call in program.calls)
    return program._replace(calls=calls, slots=len(memory.taken), outputs=places(program.outputs))


def last_calls(program: Program, without: Collection[int] = ()) -> dict[int, int]:
    """Return the last call that needs each slot, without those of some blocks; results are needed after all of them."""
    last = {slot: k for k, call in enumerate(program.calls) if call.block not in without for slot in (*call.writes, *call.reads)}
    return last | dict.fromkeys(program.outputs, len(program.calls))


def _most(program: Program, live: int, ends: list[list[int]]) -> int:
    """Return how many slots are needed at the same time, by calls without systems, whose room comes after all others."""
    most = live
    for call, over in zip(program.calls, ends, strict=False):
        most = max(most, live + (0 if call.system is not None else len(call.writes)))
        live += len(call.writes) - len(over)
    return most


class _Memory:
    """Places that are taken or free: at first so many, of which the first are taken.

    `low` and `high` are, for runs of a size, where none begins below and none of the first places ends above.
    """

    def __init__(self, taken: int, size: int) -> None:
        self.taken, self.size = bytearray(b"\1" * taken + bytes(size - taken)), size
        self.low: Counter[int] = Counter()
        self.high: dict[int, int] = {}

    def take(self, size: int, *, low: bool) -> int:
        """Take so many places in a row, the lowest that are free, or the highest of the first, or new ones; and return where they begin."""
        room, taken = bytes(size), self.taken
        first = -1 if low else taken.rfind(room, 0, self.high.get(size, self.size))
        if first >= 0:
            self.high[size] = first
        else:
            first = taken.find(room, self.low[size])
            if first < 0:
                first = len(taken.rstrip(b"\0"))
                taken += bytes(first + size - len(taken))
            self.low[size] = first + size
        taken[first : first + size] = b"\1" * size
        return first

    def free(self, places: list[int]) -> None:
        """Free places."""
        if places:
            for place in places:
                self.taken[place] = 0
            least, most = min(places), max(places)
            for size in self.low:
                self.low[size] = min(self.low[size], max(0, least - size + 1))
            for size in self.high:
                self.high[size] = max(self.high[size], min(self.size, most + size))
