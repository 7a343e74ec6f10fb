"""How the cost of forward dynamics grows with the number of bodies, measured on chains and counted in operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from catena.comparison.methods import Comparison, Report, Row, compare
from catena.errors import ArgumentError
from catena.examples import chain
from catena.formulations import METHODS
from catena.kernels.dynamics import forward_dynamics

#: Pairs of methods of forward dynamics whose crossings are reported: where the first becomes cheaper.
PAIRS = (("articulated-body", "composite-body"), ("innovations", "composite-body"), ("articulated-body", "innovations"))

#: Chains on which operations are counted for their polynomials. Their axes repeat after three links; shorter ones save operations where
#: entries of the mass matrix are known to be zero.
COUNTED = (24, 27, 30, 33, 36)


@dataclass(frozen=True)
class Line:
    """How the cost of a method grows: microseconds in a batch, operations for a state, the exponents of both, the asymptotic order."""

    method: str
    order: str
    bodies: tuple[int, ...]
    batch_us: tuple[float, ...]
    operations: tuple[float, ...]
    time_exponent: float
    operations_exponent: float


@dataclass(frozen=True)
class Crossing:
    """From how many bodies on a method is cheaper than another, in "batch_us" or "operations", and between which measured sizes that is.

    The lower size is None where it is cheaper at every size, the upper where it is not at the largest; then there is no number of bodies.
    """

    quantity: str
    cheaper: str
    than: str
    bodies: float | None
    between: tuple[int | None, int | None]


@dataclass(frozen=True)
class Growth:
    """How the cost of forward dynamics grows with the number of bodies of a chain.

    `comparisons` are the measurements, a chain each. `polynomials` has the operations of the methods that do not iterate as coefficients of
    1, n, n^2, …, exact for multiples of three from `COUNTED[0]` on.
    """

    family: str
    comparisons: tuple[Comparison, ...]
    lines: tuple[Line, ...]
    crossings: tuple[Crossing, ...]
    polynomials: dict[str, tuple[float, ...]]


def sizes(most: int = 128) -> tuple[int, ...]:
    """Return the numbers of bodies at which growth is measured: close together at first, then twice as many each time.

    >>> sizes(100)
    (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 100)
    """
    if most < 8:
        raise ArgumentError(f"growth: up to {most} bodies nothing can be seen to grow; give at least 8")
    doubling = [32 * 2**k for k in range(most.bit_length())]
    return (*(n for n in (2, 3, 4, 6, 8, 12, 16, 24, *doubling) if n < most), most)


def growth(bodies: Sequence[int] | None = None, seed: int = 0, seconds: float = 0.1, report: Report = lambda text: None) -> Growth:
    """Return how the cost of forward dynamics grows with the length of a chain.

    `bodies` are the lengths in ascending order, `sizes()` unless given; `seed`, `seconds` and `report` are those of `compare`.

    >>> found = growth([2, 3, 4], seconds=0.0)
    >>> {name: f"O(n^{len(coefficients) - 1})" for name, coefficients in found.polynomials.items()}
    {'composite-body': 'O(n^3)', 'innovations': 'O(n^2)', 'articulated-body': 'O(n^1)', 'canonical-momenta': 'O(n^1)',
     'coordinate-reduction': 'O(n^1)', 'fully-recursive/centroid': 'O(n^1)', 'fully-recursive/joint': 'O(n^1)',
     'fully-recursive/origin': 'O(n^1)'}
    """
    bodies = sizes() if bodies is None else tuple(bodies)
    compared = tuple(compare(chain(n), None, seed, ("forward_dynamics",), seconds, report, with_peer=False) for n in bodies)
    lines = {row.method: _line(row.method, bodies, [one.row(row.problem, row.method) for one in compared]) for row in compared[0].rows}
    crossings = tuple(
        Crossing(quantity, *pair, *crossing(bodies, *(getattr(lines[method], quantity) for method in pair)))
        for quantity in ("batch_us", "operations")
        for pair in PAIRS
    )
    report("counting operations")
    polynomials = {name: tuple(map(float, counted_polynomial(name))) for name in lines if not METHODS[name].iterates}
    return Growth("chain", compared, tuple(lines.values()), crossings, polynomials)


def _line(method: str, bodies: tuple[int, ...], rows: Sequence[Row]) -> Line:
    """Return the line of a method; the exponents leave out chains that are shorter than 8 links."""
    times, operations = tuple(row.batch_us for row in rows), tuple(row.operations for row in rows)
    start = min(sum(n < 8 for n in bodies), max(0, len(bodies) - 3))
    exponents = (exponent(bodies[start:], costs[start:]) for costs in (times, operations))
    return Line(method, rows[0].order, bodies, times, operations, *exponents)


def exponent(bodies: Sequence[int], costs: Sequence[float]) -> float:
    """Return p where the costs grow like n^p: least squares of the logarithms, over the upper half of the sizes and three at least.

    >>> round(exponent([2, 4, 8, 16, 32, 64], [7.0, 12.0, 30.0, 2 * 16.0**3, 2 * 32.0**3, 2 * 64.0**3]), 12)
    3.0
    """
    if len(bodies) < 3:
        raise ArgumentError(f"exponent: {len(bodies)} sizes are too few for an exponent; give at least 3")
    count = max(3, len(bodies) - len(bodies) // 2)
    return float(np.polyfit(np.log(bodies[-count:]), np.log(costs[-count:]), 1)[0])


def crossing(bodies: Sequence[int], first: Sequence[float], second: Sequence[float]) -> tuple[float | None, tuple[int | None, int | None]]:
    """Return the size from which on the first cost stays below the second, and the measured sizes around it; see `Crossing`.

    Between the sizes the logarithms are taken as straight lines.

    >>> crossing([2, 4, 8, 16], [4.0, 8.0, 16.0, 32.0], [1.0, 4.0, 16.0, 64.0])
    (8.0, (8, 16))
    >>> crossing([2, 4], [3.0, 3.0], [1.0, 2.0])
    (None, (4, None))
    """
    lead = np.log(np.asarray(first, dtype=float)) - np.log(np.asarray(second, dtype=float))
    behind = np.flatnonzero(lead >= 0.0)
    if not len(behind):
        return None, (None, bodies[0])
    last = int(behind[-1])
    if last == len(bodies) - 1:
        return None, (bodies[-1], None)
    below, above = bodies[last], bodies[last + 1]
    part = lead[last] / (lead[last] - lead[last + 1])
    return float(below * (above / below) ** part), (below, above)


@cache
def counted_polynomial(method: str) -> tuple[Fraction, ...]:
    """Return the operations of forward dynamics of a chain as a polynomial in the number of bodies.

    It is exact for multiples of three from `COUNTED[0]` on: the axes of the chain repeat after three links.

    >>> len(counted_polynomial("articulated-body"))  # linear
    2
    """
    return polynomial(COUNTED, [sum(forward_dynamics(chain(n), method).operations.values()) for n in COUNTED])


def polynomial(bodies: Sequence[int], counts: Sequence[int]) -> tuple[Fraction, ...]:
    """Return the coefficients of 1, n, n^2, … of the polynomial through all counts, exactly.

    The degree is the lowest that fits; it must be lower by two than the number of counts, so that one of them bears it out.

    >>> [str(c) for c in polynomial([3, 6, 9, 12], [1, 4, 9, 16])]
    ['0', '0', '1/9']
    """
    for degree in range(len(bodies) - 1):
        rounded = np.polynomial.Polynomial.fit(bodies, [float(count) for count in counts], degree).convert().coef
        coefficients = tuple(Fraction(c).limit_denominator(1000) for c in rounded)
        if all(sum(c * n**k for k, c in enumerate(coefficients)) == count for n, count in zip(bodies, counts, strict=True)):
            return coefficients
    raise ArgumentError(f"polynomial: no polynomial of degree {len(bodies) - 2} or less goes through {tuple(counts)}")
