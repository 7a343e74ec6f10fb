"""A line on the terminal for long runs: how far, how fast, how long to go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from catena.errors import printable


@contextmanager
def progress(name: str, start: float, until: float, show: bool | None) -> Iterator[Callable[[float, int], None]]:
    """Yield a function of the time reached [s] and the steps taken; it draws a bar, on terminals only unless `show` is given."""
    from rich.console import Console  # here, because a run without a terminal needs none of it
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (console.is_terminal if show is None else show):
        yield lambda t, steps: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.4g} of {task.total:.4g} s"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    # what is not a terminal gets the last state of the bar, once
    with Progress(*columns, console=console, transient=console.is_terminal) as bar:
        task = bar.add_task(printable(name), total=until - start, rate="")
        first: list[float] = []

        def report(t: float, steps: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            if not first:  # a run that is resumed has steps behind it
                first.extend((elapsed, steps))
            rate = (steps - first[1]) / (elapsed - first[0]) if elapsed > first[0] else 0.0
            bar.update(task, completed=t - start, rate=f"{rate:,.0f} steps/s" if rate else "")

        yield report
