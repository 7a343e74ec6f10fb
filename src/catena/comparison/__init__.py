"""Methods side by side: their results and cost on a model, its growth with the number of bodies; results and times beside Pinocchio."""

from catena.comparison.bench import Bench, Peer, Timing, bench, compared, processor, read_bench, software, this_machine, what_differs
from catena.comparison.chains import COUNTED, Crossing, Growth, Line, counted_polynomial, crossing, exponent, growth, polynomial, sizes
from catena.comparison.changes import Change, beyond, change, differing
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
    timed,
)

__all__ = [
    "COUNTED", "REFERENCE", "REFERENCE_WITH_LOOPS", "Bench", "Change", "Choice", "Comparison", "Crossing", "Growth", "Lack", "Line", "Peer",
    "PeerResult", "Row", "Timing", "bench", "beyond", "change", "compare", "compared", "counted_polynomial", "crossing", "differing",
    "disagreement", "exponent", "fastest", "growth", "polynomial", "processor", "read_bench", "sizes", "software", "this_machine", "timed",
    "what_differs",
]  # fmt: skip
