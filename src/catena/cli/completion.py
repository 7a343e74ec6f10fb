"""What the shell may complete: names of examples, model files, numbers of models, methods, integrators and quantities.

Names are imported when the shell asks for them, as the help of the command does not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from catena.errors import CatenaError

#: Endings of model files.
ENDINGS = (".toml", ".urdf", ".xml")


def models(incomplete: str) -> list[str]:
    """Return examples and model files that begin like this, and folders on the way to some.

    >>> models("four")
    ['four-bar']
    """
    from catena.examples import EXAMPLES

    folder, slash, begin = incomplete.rpartition("/")
    place = Path(folder + slash or ".")
    entries = sorted(place.iterdir()) if place.is_dir() else []
    wanted = [entry for entry in entries if entry.name.startswith(begin) and (begin or not entry.name.startswith("."))]
    files = [f"{folder}{slash}{entry.name}" for entry in wanted if entry.suffix.lower() in ENDINGS and entry.is_file()]
    folders = [f"{folder}{slash}{entry.name}/" for entry in wanted if entry.is_dir()]
    return [*among(EXAMPLES)(incomplete), *files, *folders]


def parameters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return paths of numbers of the model that is named before, where they begin like this."""
    from catena.examples import EXAMPLES
    from catena.facade import load

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
    from catena.view import plots

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in among(plots.KNOWN)(last)]


def methods(incomplete: str) -> list[str]:
    """Return the methods that begin like this.

    >>> methods("comp")
    ['composite-inverse', 'composite-coriolis', 'composite-body', 'composite-body/one-frame']
    """
    from catena.formulations import METHODS

    return among(METHODS)(incomplete)


def methods_or_auto(incomplete: str) -> list[str]:
    """Return the methods that begin like this, with `auto`.

    >>> methods_or_auto("a")
    ['auto', 'articulated-body', 'armstrong']
    """
    return [*among(["auto"])(incomplete), *methods(incomplete)]


def integrators(incomplete: str) -> list[str]:
    """Return the integrators that begin like this, with `auto`.

    >>> integrators("r")
    ['rk4', 'rang-angermann']
    """
    from catena.simulation.integrators.steps import INTEGRATORS

    return among(["auto", *INTEGRATORS])(incomplete)


def among(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes one of some names.

    >>> among(("one", "two"))("t")
    ['two']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete
