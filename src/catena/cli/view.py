"""`catena view`: the model in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catena.cli.app import Contact, Debug, FloatingBase, Ignore, Json, Keyframe, SetParameter, SetPosition, Tolerance, app, model_argument
from catena.cli.info import find
from catena.cli.printing import print_json
from catena.cli.start import Start
from catena.errors import ArgumentError, printable
from catena.simulation import Trajectory
from catena.view.viewer import Viewer


@app.command()
def view(
    shown: Annotated[str, model_argument("A model file, a built-in example, or a saved run (.npz, .nc).")],
    set_: SetPosition = None,
    keyframe: Keyframe = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="The port of the page, or the next free one.")] = 8080,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture (.png) instead.")] = None,
    set_parameter: SetParameter = None,
    floating_base: FloatingBase = False,
    ignore: Ignore = None,
    contact: Contact = None,
    tolerance: Tolerance = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a model in the browser, with sliders for its joints.

    Loops stay closed while joints move. A saved run is played. The page is served on this machine alone, until Ctrl-C. Positions are set
    as in catena simulate.

    \b
    Examples:
      catena view four-bar
      catena view robot.urdf
      catena view robot.urdf --contact ground
      catena view arm.toml --set wrist=30deg
      catena view run.npz
      catena view stewart-ups --picture stewart.png
    """
    if Path(shown).suffix.lower() in (".npz", ".nc"):
        if set_ or keyframe or picture or set_parameter or floating_base or ignore or contact or tolerance is not None:
            raise ArgumentError(f"{shown} is a saved run, which has all positions; leave the options out, or give a model file")
        run = Trajectory.load(shown)
        _serve(Viewer(run.model, run=run, port=port), browser, json)
        return
    m, _ = find(shown, floating_base, ignore, tolerance, set_parameter, contact)
    q, _ = Start.of(m, set_, keyframe=keyframe).state(m)
    if picture is None:
        _serve(Viewer(m, q, port=port), browser, json)
        return
    m.draw(picture, q)
    if json:
        print_json({"model": m.name, "picture": str(picture)})
    else:
        typer.echo(f"{printable(m.name)} is drawn in {picture}")


def _serve(viewer: Viewer, browser: bool, json: bool) -> None:
    """Show a page until it is ended."""
    if json:
        print_json({"model": viewer.scene.model.name, "url": viewer.url})
    else:
        typer.echo(f"{printable(viewer.scene.model.name)} is shown at {viewer.url}; Ctrl-C ends it")
    if browser:
        viewer.open()
    viewer.wait()
