"""Passes on programs, between the division of a graph and its code."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from catena.graph.call_order import in_order
from catena.graph.program import Block, Call, Program
from catena.graph.slots import reuse_slots


def lift_numbers(program: Program) -> Program:
    """Return a program whose numbers in place have become numbers of its calls.

    >>> merged = Program((Block(1, 0, (("const", 2.0), ("mul", 0, 1)), (2,)),), (Call(0, (0,), (), (1,)),), 2, (1,))
    >>> lift_numbers(merged).calls[0].numbers
    (2.0,)
    """
    blocks, numbers = [], []
    for block in program.blocks:
        base = block.inputs + block.numbers
        constants = [i for i, node in enumerate(block.nodes) if node[0] == "const"]
        at = {i: i for i in range(base)} | {base + i: base + k for k, i in enumerate(constants)}
        nodes: list[tuple] = []
        for i, node in enumerate(block.nodes):
            if node[0] != "const":
                at[base + i] = base + len(constants) + len(nodes)
                nodes.append((node[0], *[at[j] for j in node[1:]]))
        results = tuple(at[i] for i in block.results)
        blocks.append(block._replace(numbers=block.numbers + len(constants), nodes=tuple(nodes), results=results))
        numbers.append(tuple(block.nodes[i][1] for i in constants))
    calls = tuple(call._replace(numbers=(*call.numbers, *numbers[call.block])) for call in program.calls)
    return program._replace(blocks=tuple(blocks), calls=calls)


def arranged(program: Program, inputs: int, kept: int) -> tuple[Program, tuple[Angle, ...]]:
    """Return a program as it is compiled, in little memory, and the angles whose sines and cosines come before it.

    The first `kept` inputs are still there after a run.
    """
    program, angles = hoist_sines(program, inputs)
    return reuse_slots(in_order(program), inputs + 2 * len(angles), kept), angles


class Angle(NamedTuple):
    """The argument scale * x + offset of a sine and a cosine, where x is an input."""

    slot: int
    scale: float
    offset: float


def hoist_sines(program: Program, inputs: int) -> tuple[Program, tuple[Angle, ...]]:
    """Return the program without the sines and cosines that depend on one input alone, and the angles of those.

    The sine and cosine of angle k are expected in slots inputs + 2k and inputs + 2k + 1 before the first call. Computed one after the other
    they overlap in the processor; inside a block, the work that waits for them does not.

    >>> sine = Program((Block(1, 1, (("add", 0, 1), ("sin", 2), ("neg", 3)), (4,)),), (Call(0, (0,), (0.5,), (1,)),), 2, (1,))
    >>> program, angles = hoist_sines(sine, 1)
    >>> program.blocks, angles
    ((Block(inputs=1, numbers=1, nodes=(('neg', 0),), results=(2,), starts=(0,)),), (Angle(slot=0, scale=1.0, offset=0.5),))
    """
    # what each block could take from outside, if its inputs are inputs of the kernel in every call
    fixed = program.fixed
    forms = [{} if i in fixed else _linear_arguments(block) for i, block in enumerate(program.blocks)]
    for call in program.calls:
        here = forms[call.block]
        forms[call.block] = {local: form for local, form in here.items() if call.reads[form[0]] < inputs}
    rebuilt = [_without(block, form) for block, form in zip(program.blocks, forms, strict=True)]
    place = {old: new for new, old in enumerate(i for i, (block, _, _) in enumerate(rebuilt) if block.results or not forms[i])}

    angles: dict[Angle, int] = {}
    turned = []
    for call in program.calls:
        here = {local: _angle(form, call, program.blocks[call.block]) for local, form in forms[call.block].items()}
        turned.append({local: angles.setdefault(angle, inputs + 2 * len(angles)) for local, angle in here.items()})

    # slots are numbered anew: what a block does not compute any more needs none
    slot = {i: i for i in range(inputs)}
    slots = inputs + 2 * len(angles)
    calls = []
    for call, pair in zip(program.calls, turned, strict=True):
        _, reads, sources = rebuilt[call.block]
        if not forms[call.block]:  # nothing is taken from it; a system has reads and writes that its block does not count
            reads, sources = [(i, None) for i in range(len(call.reads))], [None] * len(call.writes)
        writes = []
        for old, source in zip(call.writes, sources, strict=True):
            if source is None:
                slot[old] = slots
                writes.append(slots)
                slots += 1
            else:
                slot[old] = pair[source[0]] + source[1]
        if writes:
            places = tuple(slot[call.reads[local]] if shift is None else pair[local] + shift for local, shift in reads)
            calls.append(call._replace(block=place[call.block], reads=places, writes=tuple(writes)))
    blocks = tuple(rebuilt[i][0] for i in place)
    libraries = tuple(library._replace(blocks=tuple(place[i] for i in library.blocks)) for library in program.libraries)
    return Program(blocks, tuple(calls), slots, tuple(slot[i] for i in program.outputs), libraries), tuple(angles)


#: An input, the number it is multiplied by and the number that is added (either may be missing), and the signs of the two terms.
_Form = tuple[int, int | None, int | None, int, int]


def _linear_arguments(block: Block) -> dict[int, _Form]:
    """Return the arguments of sines and cosines that are an input, perhaps scaled, perhaps shifted."""
    base = block.inputs + block.numbers

    def form(local: int) -> _Form | None:
        if local < block.inputs:
            return local, None, None, 1, 1
        if local < base:
            return None
        op, *operands = block.nodes[local - base]
        known = [operand for operand in operands if block.inputs <= operand < base]
        inner = form(operands[0] if operands[0] not in known else operands[-1]) if op in ("add", "sub", "mul", "neg") else None
        if inner is None or len(known) != len(operands) - 1 or (op != "neg" and inner[2] is not None):
            return None
        x, scale, offset, sign, shift = inner
        if op == "mul":
            return (x, known[0], None, sign, 1) if scale is None else None
        if op == "neg":
            return x, scale, offset, -sign, -shift
        if op == "sub" and operands[0] == known[0]:
            return x, scale, known[0], -sign, 1
        return x, scale, known[0], sign, 1 if op == "add" else -1

    forms = {node[1]: form(node[1]) for node in block.nodes if node[0] in ("sin", "cos")}
    return {local: linear for local, linear in forms.items() if linear is not None}


def _angle(form: _Form, call: Call, block: Block) -> Angle:
    """Return the angle of a form in one call."""
    x, scale, offset, sign, shift = form
    return Angle(
        call.reads[x],
        sign * (1.0 if scale is None else call.numbers[scale - block.inputs]),
        shift * (0.0 if offset is None else call.numbers[offset - block.inputs]) + 0.0,
    )


_Source = tuple[int, int | None]


def _without(block: Block, arguments: Collection[int]) -> tuple[Block, list[_Source], list[tuple[int, int] | None]]:
    """Return a block that reads the sines and cosines of these locals.

    With it, per new input: an old input and None, or an argument and 0 for its sine, 1 for its cosine; per old result: None where the block
    still computes it, or the argument and 0 or 1.
    """
    base = block.inputs + block.numbers
    moved = {
        base + i: (node[1], ("sin", "cos").index(node[0]))
        for i, node in enumerate(block.nodes)
        if node[0] in ("sin", "cos") and node[1] in arguments
    }
    used = set(block.results)
    stay = []
    for i in range(base + len(block.nodes) - 1, base - 1, -1):
        # an argument that nothing else needs goes as well
        if i not in moved and (i in used or not arguments):
            stay.append(i)
            used.update(block.nodes[i - base][1:])
    stay.reverse()
    needed = {j for i in stay for j in block.nodes[i - base][1:]}
    reads: list[_Source] = [(i, None) for i in range(block.inputs) if i in used or not arguments]
    at = {i: k for k, (i, _) in enumerate(reads)}
    for i in moved:
        if i in needed:
            at[i] = len(reads)
            reads.append(moved[i])
    at |= {block.inputs + k: len(reads) + k for k in range(block.numbers)}
    at |= {i: len(reads) + block.numbers + k for k, i in enumerate(stay)}
    nodes = tuple((block.nodes[i - base][0], *[at[j] for j in block.nodes[i - base][1:]]) for i in stay)
    results = tuple(at[i] for i in block.results if i not in moved)
    return block._replace(inputs=len(reads), nodes=nodes, results=results), reads, [moved.get(i) for i in block.results]
