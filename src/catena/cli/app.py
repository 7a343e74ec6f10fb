"""The command itself: its options, how it shows errors, and its exit codes."""

from __future__ import annotations

import difflib
import io
import os
import sys
import warnings
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

import catena as ct
from catena.cli import completion
from catena.errors import CatenaError

#: Exit codes: an error of catena's tree; wrong usage; something that catena did not expect; the reader of a pipe is gone; Ctrl-C.
FAILED, USAGE, BUG, BROKEN_PIPE, INTERRUPTED = 1, 2, 70, 141, 130

#: The commands in the order in which the help lists them. Each is a module of this room, which is imported when it is called.
COMMANDS = {
    "demo": "Check and time an arm, simulate, draw a picture.",
    "info": "Print what a model is made of.",
    "simulate": "Simulate a model, and print, plot or save its motion.",
    "sweep": "Measure a model for values of its numbers.",
    "compare": "Compare the methods on a model.",
    "bench": "Time the kernels of a model on this machine.",
    "view": "Show a model in the browser, with sliders for its joints.",
    "export": "Write a kernel as C, CasADi or JAX.",
    "cite": "Print the references of a method, as BibTeX.",
}

#: What the command prints without arguments.
FIRST = """\
catena computes how mechanisms and robots move. To begin:

  catena demo                           check and time an arm, simulate, draw a picture
  catena info                           list the built-in examples
  catena info robot.urdf                print what a model is made of
  catena simulate robot.urdf --random 0 --until 2 --plot robot.png
                                        simulate 2 s from a random start, and plot them
  catena view robot.urdf                show it in the browser, with sliders for its joints
  catena export c robot.urdf            write its forward dynamics as C

robot.urdf is a file of yours (.urdf, MuJoCo's .xml, catena's .toml) or the name of an example, such as arm.
catena --help lists all commands, catena simulate --help the options of one."""

#: Errors in the use of the command; the package that Typer takes them from depends on its version.
_UsageError: Any = typer.BadParameter.__base__


class _Group(TyperGroup):
    """Prints errors and warnings in one line each, and suggests a name where one is not known."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        if cmd_name not in COMMANDS:
            return None
        import_module(f"catena.cli.{cmd_name}")  # which enters it in the app
        group: Any = get_command(app)
        return group.commands[cmd_name]

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            _print_usage_error(error, ctx)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        name = args[0]
        if not name.startswith("-") and name not in COMMANDS:
            near = "".join(f"did you mean '{other}'? " for other in difflib.get_close_matches(name, COMMANDS, n=1))
            ctx.fail(f"no such command '{name}'; {near}{'C' if near else 'c'}hoose from {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a name that the terminal cannot show does not stop the command
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _print_message("warning", message)
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
            except (typer.Exit, typer.Abort):
                raise
            except _UsageError as error:
                _print_usage_error(error, ctx)
            except KeyboardInterrupt:
                typer.echo("interrupted", err=True)
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:
                if isinstance(sys.stdout, io.TextIOWrapper):  # discards buffered output, so that the process ends without a complaint
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(BROKEN_PIPE) from None
            except Exception as error:
                if ctx.meta.get("debug"):
                    raise
                _print_error(error)


def _print_message(kind: str, message: Any) -> None:
    from catena.cli.printing import print_message  # here, because the help does not wait for what prints tables

    print_message(kind, message)


def _print_error(error: Exception) -> NoReturn:
    """Print an error in one line, and end with its exit code."""
    if isinstance(error, (CatenaError, MemoryError)):
        _print_message("error", error if isinstance(error, CatenaError) else f"there is not enough memory: {error}".removesuffix(": "))
        raise typer.Exit(FAILED) from None
    _print_message("error", f"{type(error).__name__}: {error}; this is a bug of catena: --debug shows where it is, for a report")
    raise typer.Exit(BUG) from None


def _print_usage_error(error: Any, ctx: typer.Context) -> NoReturn:
    """Print an error in the use of the command in one line, with the options that an unknown one may stand for, and end."""
    near = sorted(getattr(error, "possibilities", None) or ())
    text = f"no such option {error.option_name}; did you mean {' or '.join(near)}?" if near else error.format_message()
    for theirs, ours in (("Value error, ", ""), ("Input should be", "it must be"), (", unable to parse string as an integer", "")):
        text = text.replace(theirs, ours)
    text = (text[:1].lower() + text[1:]).rstrip(".")
    end = " See" if text.endswith("?") else "; see"
    _print_message("error", f"{text}{end} {(error.ctx or ctx).command_path} --help")
    raise typer.Exit(USAGE) from None


def _set_debug(ctx: typer.Context, value: bool) -> bool:
    ctx.meta["debug"] = ctx.meta.get("debug") or value
    return value


def _version(value: bool) -> None:
    if value:
        typer.echo(f"catena {ct.__version__}")
        raise typer.Exit()


app = typer.Typer(
    cls=_Group,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def model_argument(help_: str = "A model file (.toml, .urdf, .xml) or a built-in example.") -> Any:
    """Return the argument that names a model."""
    return typer.Argument(metavar="FILE|EXAMPLE", help=help_, autocompletion=completion.models)


ModelName = Annotated[str, model_argument()]
FloatingBase = Annotated[bool, typer.Option("--floating-base", help="Let the root link of a URDF file move freely.")]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHAT", help="Load a URDF or MJCF file without this, such as contact; unsupported is all that cannot be read; repeatable."
    ),
]
Contact = Annotated[
    str | None,
    typer.Option(
        metavar="ground|ignore",
        help="ground: shapes of a URDF or MJCF file touch the ground, by compliant contact; ignore: load a file without its contact.",
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.0, help="Closure residual that loops of a file may have, of their size or rad; without it 1e-4."),
]
SetPosition = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A start position, such as crank=90deg; repeatable.")
]
SetVelocity = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A start velocity, such as crank=90deg/s; repeatable.")]
RandomStart = Annotated[
    int | None, typer.Option(metavar="SEED", min=0, help="Start at random, well inside the joint limits; --set changes single coordinates.")
]
Keyframe = Annotated[str | None, typer.Option(metavar="NAME", help="Start at a keyframe of an MJCF file; --set changes it.")]
IntegratorName = Annotated[
    str, typer.Option(metavar="NAME", help="How to integrate; an unknown name lists the choices.", autocompletion=completion.integrators)
]
SetParameter = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH=VALUE",
        help="Another number of the model, such as hand.mass=2 or gravity=0,0,-1.62; repeatable. catena info --parameters lists all.",
        autocompletion=completion.parameters,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
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
      catena demo                   check and time the dynamics of an arm, simulate, draw a picture
      catena info                   list the built-in examples
      catena info humanoid          what a built-in example is made of
      catena info arm.toml          what a model file describes
      catena info arm.toml --json   the same for programs
      catena info robot.urdf        the same of a URDF file; robot.xml of an MJCF file
      catena simulate pendulum      simulate 10 s of its motion
      catena simulate arm.toml --until 5 --set wrist=30deg --plot arm.png --save arm.nc
      catena sweep four-bar --parameter rocker.mass=1:5:9 --measure torque:crank
      catena view four-bar          show it in the browser, with sliders for its joints
      catena compare arm            results and cost of all methods, side by side
      catena bench arm              how long its kernels take on this machine
      catena export c arm           its forward dynamics as C
      catena cite articulated-body  where a method comes from, as BibTeX

    \b
    Exit codes:
      0    done
      1    an error, in one line on stderr
      2    wrong usage
      70   a bug of catena; --debug shows the traceback
      130  interrupted by Ctrl-C
      141  the program that reads the output has gone

    With --json stdout is one JSON document, or empty where there is an error; messages go to stderr as always. Colours are for terminals
    only; NO_COLOR turns them off and FORCE_COLOR on. --install-completion lets the shell complete commands, examples, files and methods.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(FIRST)
