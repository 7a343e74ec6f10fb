"""What the shell may complete: names of examples, model files, methods, integrators and quantities."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from catena.examples import EXAMPLES
from catena.formulations import METHODS
from catena.simulation.integrators.steps import INTEGRATORS
from catena.view import plots

#: Endings of model files.
ENDINGS = (".toml", ".urdf", ".xml")


def models(incomplete: str) -> list[str]:
    """Return examples and model files that begin like this, and folders on the way to some.

    >>> models("four")
    ['four-bar']
    """
    folder, slash, begin = incomplete.rpartition("/")
    place = Path(folder + slash or ".")
    entries = sorted(place.iterdir()) if place.is_dir() else []
    wanted = [entry for entry in entries if entry.name.startswith(begin) and (begin or not entry.name.startswith("."))]
    files = [f"{folder}{slash}{entry.name}" for entry in wanted if entry.suffix.lower() in ENDINGS and entry.is_file()]
    folders = [f"{folder}{slash}{entry.name}/" for entry in wanted if entry.is_dir()]
    return [*_beginning(incomplete, EXAMPLES), *files, *folders]


def methods(incomplete: str) -> list[str]:
    """Return the names of methods that begin like this.

    >>> methods("comp")
    ['composite-inverse', 'composite-body']
    """
    return _beginning(incomplete, METHODS)


def methods_or_auto(incomplete: str) -> list[str]:
    """Return the same, and `auto`.

    >>> methods_or_auto("a")
    ['auto', 'articulated-body', 'armstrong']
    """
    return _beginning(incomplete, ("auto", *METHODS))


def integrators(incomplete: str) -> list[str]:
    """Return the names of integrators that begin like this.

    >>> integrators("r")
    ['rk4', 'rang-angermann']
    """
    return _beginning(incomplete, ("auto", *INTEGRATORS))


def quantities(incomplete: str) -> list[str]:
    """Return what can be plotted and begins like the last of some names with commas in between.

    >>> quantities("q,ph")
    ['q,phase']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(last, plots.KNOWN)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
