"""`catena cite`: where the methods come from."""

from __future__ import annotations

from typing import Annotated

import typer

from catena.cli.app import Debug, app
from catena.errors import MethodError
from catena.formulations import METHODS
from catena.references import REFERENCES


@app.command()
def cite(
    method: Annotated[str | None, typer.Argument(metavar="METHOD", help="The name of a method, such as articulated-body.")] = None,
    debug: Debug = False,
) -> None:
    """Print the reference of a method, as BibTeX.

    Without an argument, print all references, each once and after the names of its methods.
    Examples: catena cite articulated-body; catena cite > catena.bib
    """
    if method is None:
        by_key: dict[str, list[str]] = {}
        for name, entry in METHODS.items():
            by_key.setdefault(entry.reference, []).append(name)
        typer.echo("\n\n".join(f"% {', '.join(names)}\n{REFERENCES[key]}" for key, names in by_key.items()))
        return
    if method == "auto":
        raise MethodError("'auto' is no method but a choice among them; catena compare MODEL tells which it takes: give that name")
    if method not in METHODS:
        raise MethodError(f"'{method}' is no method of catena; choose from {', '.join(METHODS)}")
    typer.echo(REFERENCES[METHODS[method].reference])
