"""What machine code and its tables must agree on: the entries of the table that a kernel receives, and its scratch memory."""

from __future__ import annotations

from enum import IntEnum

from catena.graph import OPERATIONS

#: Functions of the C library, in the order of the table that kernels receive: those that operations are, or fall back on.
LIBRARY = tuple(name for name, operation in OPERATIONS.items() if operation.llvm.startswith(("@sincos", "@lanewise")))

#: Scratch memory up to this size [bytes] lives on the stack.
STACK = 32768

#: Alignment of the scratch memory [bytes]: a cache line.
ALIGN = 64


class Data(IntEnum):
    """Entries of the table that a kernel receives, 8 bytes each; the C library's functions come first."""

    MALLOC = len(LIBRARY)
    FREE = MALLOC + 1
    CLEAR = MALLOC + 2  # feclearexcept
    ENSURE = MALLOC + 3  # PyGILState_Ensure
    NO_MEMORY = MALLOC + 4  # PyErr_NoMemory
    RELEASE = MALLOC + 5  # PyGILState_Release
    TRIGONOMETRY = MALLOC + 6  # numbers of sine and cosine
    SIZES = MALLOC + 7  # core sizes of all operands
    OUTPUTS = MALLOC + 8  # places of the results in the scratch memory [bytes]
    SCRATCH = MALLOC + 9  # size of the scratch memory [bytes]
    CALLS = MALLOC + 10  # function, places, numbers; per call
    COUNT = MALLOC + 11  # number of calls
    ANGLES = MALLOC + 12  # angles whose sine and cosine are computed first: place, scale, offset
    TURNS = MALLOC + 13  # number of those
    PAIRS = MALLOC + 14  # place of their sines and cosines
