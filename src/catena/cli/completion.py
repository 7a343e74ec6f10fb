"""What the shell may complete: names of examples, model files, numbers of models, methods, integrators and quantities."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from catena.errors import CatenaError
from catena.examples import EXAMPLES
from catena.facade import load
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
    return [*among(EXAMPLES)(incomplete), *files, *folders]


def parameters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return paths of numbers of the model that is named before, where they begin like this."""
    model = next((word for word in ctx.args if word in EXAMPLES or Path(word).is_file()), None)
    if model is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            m = EXAMPLES[model]() if model in EXAMPLES else load(model)
        except CatenaError:  # the command itself says what is wrong with the file
            return []
    return [f"{path}=" for path in among(m.parameters())(incomplete)]


def quantities(incomplete: str) -> list[str]:
    """Return what can be plotted and begins like the last of some names with commas in between.

    >>> quantities("q,ph")
    ['q,phase']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in among(plots.KNOWN)(last)]


def among(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes one of some names.

    >>> methods("comp"), methods_or_auto("a"), integrators("r")
    (['composite-inverse', 'composite-body'], ['auto', 'articulated-body', 'armstrong'], ['rk4', 'rang-angermann'])
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


methods, methods_or_auto, integrators = map(among, (METHODS, ("auto", *METHODS), ("auto", *INTEGRATORS)))
