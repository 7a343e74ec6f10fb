"""The methods side by side: what each costs on a model, and how the cost grows with the number of bodies."""

from catena.comparison.chains import COUNTED, Crossing, Growth, Line, counted_polynomial, crossing, exponent, growth, polynomial, sizes
from catena.comparison.methods import REFERENCE, REFERENCE_WITH_LOOPS, Choice, Comparison, Lack, Row, compare, disagreement, fastest

__all__ = [
    "COUNTED", "REFERENCE", "REFERENCE_WITH_LOOPS", "Choice", "Comparison", "Crossing", "Growth", "Lack", "Line", "Row", "compare",
    "counted_polynomial", "crossing", "disagreement", "exponent", "fastest", "growth", "polynomial", "sizes",
]  # fmt: skip
