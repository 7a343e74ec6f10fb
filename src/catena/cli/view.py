"""`catena view`: the model in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catena.cli.app import Debug, FloatingBase, Ignore, app
from catena.cli.info import find
from catena.cli.simulate import keyframe_of, start
from catena.errors import ArgumentError
from catena.simulation import Trajectory, settings


@app.command()
def view(
    shown: Annotated[str, typer.Argument(metavar="FILE|EXAMPLE", help="A model file, a built-in example, or a saved run (.npz, .nc).")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A position to begin with, such as crank=90deg; repeatable.")
    ] = None,
    keyframe: Annotated[str | None, typer.Option(metavar="NAME", help="Begin at a position that an MJCF file names.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is; the next free one is taken.")] = 8080,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    picture: Annotated[Path | None, typer.Option(help="Write a picture (.png) instead.")] = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    debug: Debug = False,
) -> None:
    """See a model in the browser, with its joints to move by sliders; loops stay closed. Or play a saved run.

    The page is served on this machine alone, until Ctrl-C. Positions are set as catena simulate sets them.

    \b
    Examples:
      catena view four-bar
      catena view robot.urdf --set elbow=30deg
      catena view run.npz
      catena view stewart-ups --picture stewart.png
    """
    if Path(shown).suffix.lower() in (".npz", ".nc"):
        if set_ or keyframe or picture or floating_base or ignore:
            raise ArgumentError(f"{shown} is a saved run, which says all positions; leave the options away, or give a model file")
        Trajectory.load(shown).view(port=port, browser=browser, wait=True)
        return
    m, _ = find(shown, floating_base, ignore)
    q, _ = start(m, settings.by_body(m, set_ or []), [], None if keyframe is None else keyframe_of(m, keyframe))
    if picture is not None:
        m.draw(picture, q)
    else:
        m.view(q, port=port, browser=browser, wait=True)
