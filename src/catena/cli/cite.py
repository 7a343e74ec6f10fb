"""`catena cite`: where the methods come from."""

from __future__ import annotations

from typing import Annotated

import typer

from catena.cli import completion
from catena.cli.app import Debug, Json, app
from catena.cli.printing import print_json
from catena.errors import MethodError
from catena.formulations import METHODS
from catena.model.wording import choice
from catena.references import REFERENCES


@app.command()
def cite(
    method: Annotated[
        str | None,
        typer.Argument(metavar="METHOD", help="The name of a method, such as articulated-body.", autocompletion=completion.methods),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the references of a method, as BibTeX.

    Without an argument, print all references, each once and after the names of its methods.

    \b
    Examples:
      catena cite articulated-body
      catena cite --json
      catena cite > catena.bib
    """
    if method == "auto":
        raise MethodError("'auto' is not a method but a choice among them; give the name that catena compare MODEL prints")
    if method is not None and method not in METHODS:
        raise MethodError(f"'{method}' is not a method of catena; {choice(method, METHODS)}")
    by_key: dict[str, list[str]] = {}
    for name, entry in METHODS.items():
        if method in (None, name):
            for key in entry.references:
                by_key.setdefault(key, []).append(name)
    if json:
        print_json([{"key": key, "methods": names, "bibtex": REFERENCES[key]} for key, names in by_key.items()])
    elif method is None:
        typer.echo("\n\n".join(f"% {', '.join(names)}\n{REFERENCES[key]}" for key, names in by_key.items()))
    else:
        typer.echo("\n\n".join(REFERENCES[key] for key in by_key))
