"""Methods side by side: their results and cost on a model, its growth with the number of bodies; results and times beside Pinocchio."""

from catena.comparison.bench import Bench, Peer, Timing, bench, processor
from catena.comparison.chains import COUNTED, Crossing, Growth, Line, counted_polynomial, crossing, exponent, growth, polynomial, sizes
from catena.comparison.methods import (
    REFERENCE,
    REFERENCE_WITH_LOOPS,
    Choice,
    Comparison,
    Lack,
    PeerResult,
    Row,
    compare,
    disagreement,
    fastest,
)

__all__ = [
    "COUNTED", "REFERENCE", "REFERENCE_WITH_LOOPS", "Bench", "Choice", "Comparison", "Crossing", "Growth", "Lack", "Line", "Peer",
    "PeerResult", "Row", "Timing", "bench", "compare", "counted_polynomial", "crossing", "disagreement", "exponent", "fastest", "growth",
    "polynomial", "processor", "sizes",
]  # fmt: skip
