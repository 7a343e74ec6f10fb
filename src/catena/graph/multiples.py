"""Sums of multiples that are only multiplied by numbers, such as components across an axis that is turned by a fixed angle.

Of c (a x + b y), d (a x + b y), … with numbers a, b, c, d, … the sum becomes (a/b) x + y, and the numbers before it b c, b d, …: a product
less. Which of x and y stands without a number depends on the form of the graph alone, so that regions that are alike stay alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from catena.graph.node_table import BITS, CONST, INPUT, NodeTable
from catena.graph.scalar import ADD, MUL, SUB

_ADD, _SUB, _MUL = (code >> 2 * BITS for code in (ADD, SUB, MUL))

#: Numbers between these sizes have products and quotients with all their digits.
_SMALL, _LARGE = 1e-50, 1e50


class _Scaled(NamedTuple):
    """A sum that is computed divided by `scale`: of its terms, one loses its number, and the other has the number `ratio`."""

    scale: float
    bare: int
    other: int
    ratio: float


def with_scaled_sums(table: NodeTable, results: Sequence[int]) -> tuple[NodeTable, np.ndarray]:
    """Return a table in which such sums are scaled, and the new places of its nodes.

    >>> nodes = ("input", 0), ("input", 1), ("const", 6.0), ("mul", 0, 2), ("const", 2.0), ("mul", 1, 4), ("add", 3, 5), ("mul", 6, 2)
    >>> table, at = with_scaled_sums(NodeTable.of(nodes), [7])
    >>> table.nodes()[at[3]:], [node[1] for node in table.nodes() if node[0] == "const"]
    ((('mul', 0, 3), ('add', 4, 1), ('mul', 5, 2)), [12.0, 3.0])
    """
    some = min(len(table.operands), 1)
    first = np.append(table.operands, 0)[(table.ends - table.counts) * some]  # of a node without operands it means nothing
    last = np.append(table.operands, 0)[(table.ends - 1) * some]
    multiples = np.flatnonzero((table.op == _MUL) & (table.op[last] == CONST))
    sums = _scaled(table, first, last, multiples, results)
    if not sums:
        return table, np.arange(len(table.op) + 1)

    # the numbers of products whose other operand is scaled, and of terms of the sums
    numbers, scale, bare = np.array(table.numbers), np.ones(len(table.op)), [one.bare for one in sums.values()]
    scale[list(sums)] = [one.scale for one in sums.values()]
    changed = multiples[(scale[first[multiples]] != 1.0) & ~np.isin(multiples, bare)]
    number = dict(zip(changed.tolist(), (numbers[table.entry[last[changed]]] * scale[first[changed]]).tolist(), strict=True))
    number |= {one.other: one.ratio for one in sums.values()}
    new = {x: k for k, x in enumerate(dict.fromkeys(number.values()))}

    # new numbers stand behind the first inputs; numbers that nothing uses any more are left out, and products that are none
    start = int(np.argmax(table.op != INPUT))
    operands = table.operands.copy()
    operands[table.ends[list(number)] - 1] = [new[x] - len(new) for x in number.values()]
    for i, one in sums.items():
        operands[table.ends[i] - (2 if first[i] == one.bare else 1)] = first[one.bare]
    kept = table.op != CONST
    kept[bare] = False
    used = operands[np.repeat(kept, table.counts)]
    kept[used[used >= 0]] = kept[list(results)] = True
    at = np.concatenate([[0], np.cumsum(kept)])
    at[start:] += len(new)
    more = np.arange(len(new))
    scaled = table._replace(
        op=np.insert(table.op[kept], start, 0 * more + CONST),
        operands=np.where(used < 0, start + len(new) + used, at[used]),
        ends=np.cumsum(np.insert(table.counts[kept], start, 0 * more)),
        entry=np.insert(table.entry[kept], start, len(numbers) + more),
        numbers=[*table.numbers, *new],
    )
    return scaled, at


def _scaled(table: NodeTable, first: np.ndarray, last: np.ndarray, multiples: np.ndarray, results: Sequence[int]) -> dict[int, _Scaled]:
    """Return the sums that are scaled: of two multiples that nothing else needs, and used in multiples alone."""
    count = len(table.op)
    uses = np.bincount(table.operands, minlength=count)
    uses[list(results)] += 2
    term = np.zeros(count, dtype=bool)
    term[multiples] = uses[multiples] == 1
    sums = ((table.op == _ADD) | (table.op == _SUB)) & term[first] & term[last]
    sums &= uses == np.bincount(first[multiples], minlength=count)
    found: dict[int, _Scaled] = {}
    for i in np.flatnonzero(sums).tolist():
        # the later term without a number: measured on chains of 7 joints, the other choice has values moved in and out of registers
        terms = [(int(j), found.get(int(first[j]))) for j in (last[i], first[i])]
        if terms[0][1] is not None and terms[1][1] is None:  # lest scales grow from sum to sum
            terms.reverse()
        a, b = (table.numbers[int(table.entry[last[j]])] * (1.0 if inner is None else inner.scale) for j, inner in terms)
        if all(_SMALL < abs(x) < _LARGE for x in (a, b)):
            found[i] = _Scaled(a, terms[0][0], terms[1][0], b / a)
    return found
