"""The exceptions of catena, one tree.

Every message names the thing, the value and the remedy. It has at most `LONGEST` characters, and none that a terminal takes as an order.
"""

import importlib
from typing import Any

#: The most characters of a message, and how many of them are its end, where the remedy is.
LONGEST, END = 1200, 400


def printable(text: str) -> str:
    r"""Return text with escapes in place of characters that show nothing, but lines and tabs: names may hold orders to a terminal.

    >>> printable("arm\x1b[2J")
    'arm\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


class _Readable(Exception):
    """A message that can be printed, and is cut in the middle where it is long."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*(_cut(printable(said)) if isinstance(said, str) else said for said in given), **named)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - END - 3]} … {text[-END:]}"


class CatenaError(_Readable):
    """Base of all errors that catena raises on purpose."""


class ModelError(CatenaError, ValueError):
    """A mechanism that cannot be: wrong names, values or structure."""


class ModelFileError(ModelError):
    """A model file that cannot be read or written; the message carries file and place."""


class TrajectoryFileError(CatenaError, ValueError):
    """A file of a trajectory that cannot be read or written; the message carries the file."""


class ExportError(CatenaError, ValueError):
    """A kernel that cannot be exported, or a file of it that cannot be written."""


class MeshError(CatenaError, ValueError):
    """A mesh that cannot be shown: not found, not to be opened, or broken."""


class MissingPackageError(CatenaError, ImportError):
    """An optional package that is not installed; the message says how to get it."""


def optional_package(name: str, need: str, remedy: str) -> Any:
    """Return an optional package; where it is not installed, the error says what needs it, and the remedy."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(f"{need}, which is not installed; {remedy}") from None


class MethodError(CatenaError, ValueError):
    """A method that does not exist or does not solve the problem asked."""


class ArgumentError(CatenaError, TypeError, ValueError):
    """Arguments that a kernel cannot take: wrong number, shape or kind."""


class TraceError(CatenaError, TypeError):
    """Python code that cannot be traced, such as an `if` on a traced value."""


class CompileError(CatenaError, RuntimeError):
    """A graph that could not be turned into machine code."""


class SimulationError(CatenaError, RuntimeError):
    """A run that could not go on; `trajectory` holds the motion up to the last good state, where there is one."""

    trajectory: object = None


class InertiaWarning(_Readable, UserWarning):
    """An inertia that no real body can have, accepted as it stands."""


class ViewWarning(_Readable, UserWarning):
    """Something of a model that cannot be shown; the rest is."""


class AssemblyWarning(_Readable, UserWarning):
    """A geometry does not go together, and its positions are NaN."""


class LimitWarning(_Readable, UserWarning):
    """Positions beyond the limits of joints, because none were found that close the loops within them."""


class SingularWarning(_Readable, UserWarning):
    """A state at which a mechanism with loops loses rank, so that its accelerations are not unique."""


class StiffnessWarning(_Readable, UserWarning):
    """Passive forces that settle much faster than the mechanism moves, and an explicit integrator, with tiny steps or unstable ones; or
    fixed steps that are too long for stops and contacts, from which the motion gained energy.
    """


class ConvergenceWarning(_Readable, UserWarning):
    """An iteration that ended before it reached its tolerance; the result is the best it has."""
