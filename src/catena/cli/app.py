"""The command itself: its options, and how errors are shown."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import catena as ct
from catena.errors import CatenaError


class _Group(TyperGroup):
    """Prints the errors and warnings of catena as one line each."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no reason to stop
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: typer.echo(f"warning: {one_line(message)}", err=True)
            try:
                return super().invoke(ctx)
            except CatenaError as error:
                if ctx.meta.get("debug"):
                    raise
                typer.echo(f"error: {one_line(error)}", err=True)
                raise typer.Exit(1) from None


def one_line(message: Any) -> str:
    return " ".join(str(message).split())


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    if value:
        ctx.meta["debug"] = True
    return value


def _version(value: bool) -> None:
    if value:
        typer.echo(f"catena {ct.__version__}")
        raise typer.Exit()


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

ModelName = Annotated[str, typer.Argument(metavar="FILE|EXAMPLE", help="A model file (.toml, .urdf, .xml) or a built-in example.")]
FloatingBase = Annotated[bool, typer.Option("--floating-base", help="Let the root link of a URDF file move freely.")]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="WHAT", help="Load a URDF or MJCF file without this, such as contact; repeatable.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug, is_eager=True)]


@app.callback()
def main(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)] = False,
    debug: Debug = False,
) -> None:
    """Recursive multibody dynamics: equations of motion as compiled NumPy functions.

    \b
    Examples:
      catena demo                 check and time the dynamics of an arm, simulate, draw a picture
      catena info                 list the built-in examples
      catena info humanoid        what a built-in example is made of
      catena info arm.toml        what a model file describes
      catena info arm.toml --json the same for programs
      catena info robot.urdf      the same of a URDF file; robot.xml of an MJCF file
      catena simulate pendulum    let a mechanism move for 10 s
      catena simulate arm.toml --until 5 --set wrist=30deg --plot arm.png --save arm.nc
      catena view four-bar        see it in the browser, move its joints
      catena compare arm          what all methods give and cost, side by side
      catena export c arm         its forward dynamics as C
      catena cite articulated-body where a method comes from, as BibTeX
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
