"""The order of a program's calls: values live as short as the calls can be arranged for."""

from __future__ import annotations

from catena.graph.program import Program


def in_order(program: Program) -> Program:
    """Return the program with calls moved to where fewer values wait for them, on to those that need them or back to those that they need.

    A program with libraries stays as it is, so that its blocks, and their code, do not depend on them.

    >>> from catena.graph.program import Block, Call
    >>> twice, total = Block(1, 0, (("add", 0, 0),), (1,)), Block(2, 0, (("add", 0, 1),), (2,))
    >>> calls = [Call(0, (k % 2,), (), (2 + k,)) for k in range(4)]
    >>> calls += [Call(1, (5, 4), (), (6,)), Call(1, (6, 3), (), (7,)), Call(1, (7, 2), (), (8,))]
    >>> [call.writes[0] for call in in_order(Program((twice, total), tuple(calls), 9, (8,))).calls]
    [4, 5, 6, 3, 7, 2, 8]
    """
    return program if program.libraries else _early(_late(program))


def _late(program: Program) -> Program:
    """Return the program with calls just before the first that reads what they write, where this lets values live shorter."""
    calls, end = program.calls, len(program.calls)
    at = list(range(end))  # the call that each comes before, or itself
    first: dict[int, int] = {}  # that reads a slot, and last
    last = dict.fromkeys(program.outputs, end)
    for k in reversed(range(end)):
        call = calls[k]
        reads, to = set(call.reads), min((first[slot] for slot in call.writes if slot in first), default=k)
        if to > k + 1:
            longer = sum(max(0, to - max(k, last.get(slot, k))) for slot in reads)
            if longer < len(call.writes) * (to - k):
                at[k] = to
        for slot in reads:
            first[slot], last[slot] = min(at[k], first.get(slot, end)), max(at[k], last.get(slot, 0))
    return program._replace(calls=tuple(calls[k] for k in sorted(range(end), key=lambda k: (at[k], k))))


def _early(program: Program) -> Program:
    """Return the program with calls just after the last that writes what they read, where this lets values live shorter."""
    calls, end = program.calls, len(program.calls)
    at = list(range(end))  # the call that each comes after, or itself
    written: dict[int, int] = {}  # when a slot is, and when it was last read so far
    before: dict[int, int] = {}
    last = {slot: k for k, call in enumerate(calls) for slot in call.reads} | dict.fromkeys(program.outputs, end)
    for k, call in enumerate(calls):
        reads = set(call.reads)
        to = max((written[slot] for slot in reads if slot in written), default=-1)
        if to < k - 1:
            shorter = sum(k - max(to, before.get(slot, to)) for slot in reads if last[slot] == k)
            if shorter > len(call.writes) * (k - to):
                at[k] = to
        for slot in reads:
            before[slot] = max(at[k], before.get(slot, -1))
        written |= dict.fromkeys(call.writes, at[k])
    return program._replace(calls=tuple(calls[k] for k in sorted(range(end), key=lambda k: (at[k], at[k] < k, k))))
