"""The rooms of catena and who imports whom, read from the source; and their picture, `docs/pictures/rooms.svg`.

    python docs/rooms.py                        draw the picture again
    python docs/rooms.py --text                 print the rooms in order, with what each imports
    python docs/rooms.py SOURCE PICTURE.svg     draw the rooms of another version, src/catena of its checkout

A room is a module or a folder of `src/catena`. Imports inside functions count like others.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "catena"
PICTURE = Path(__file__).parent / "pictures" / "rooms.svg"

#: The one exception: a trajectory shows and loads itself, as a frame of pandas does.
EXCEPTION = ("simulation/trajectory.py", ("view", "facade"))


def modules(source: Path = SOURCE) -> list[Path]:
    """Return the source files."""
    return sorted(source.rglob("*.py"))


def room(path: Path, source: Path = SOURCE) -> str:
    """Return the room of a source file; that of the package itself is `catena`."""
    first = path.relative_to(source).parts[0]
    return "catena" if first == "__init__.py" else first.removesuffix(".py")


def imported(path: Path, source: Path = SOURCE) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every import of a file, also those inside functions; names as `catena.graph.Trace`."""
    package = ["catena", *path.relative_to(source).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)


def room_of(name: str, source: Path = SOURCE) -> str:
    """Return the room or package that an imported name belongs to: `catena.graph.Trace` to `graph`, `numpy.linalg` to `numpy`."""
    first, *rest = name.split(".")
    if first != "catena":
        return first
    known = rest and ((source / rest[0]).is_dir() or (source / f"{rest[0]}.py").is_file())
    return rest[0] if known else "catena"


def edges(source: Path = SOURCE) -> dict[str, set[str]]:
    """Return which rooms each room imports, but for the exception."""
    found: dict[str, set[str]] = {room(path, source): set() for path in modules(source)}
    del found["catena"]  # the package itself offers what the rooms have
    for path in modules(source):
        here = room(path, source)
        for _, name in imported(path, source) if here in found else ():
            there = room_of(name, source)
            excepted = path.relative_to(source).as_posix() == EXCEPTION[0] and there in EXCEPTION[1]
            if there in found and there != here and not excepted:
                found[here].add(there)
    return found


def order(graph: dict[str, set[str]]) -> list[str]:
    """Return rooms so that each comes after those that it imports; raise `graphlib.CycleError` where there is a cycle."""
    sorter, ordered = TopologicalSorter({room: sorted(others) for room, others in sorted(graph.items())}), []
    sorter.prepare()
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered += ready
        sorter.done(*ready)
    return ordered


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the rooms that a room imports, itself or through others."""
    seen, new = set(), [start]
    while new:
        for there in graph[new.pop()] - seen:
            seen.add(there)
            new.append(there)
    return seen


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the groups of rooms that import each other round about."""
    reach = {room: reached(graph, room) for room in graph}
    groups = {frozenset(other for other in reach[room] if room in reach[other]) for room in graph if room in reach[room]}
    return sorted(map(set, groups), key=len, reverse=True)


def svg(graph: dict[str, set[str]], ordered: list[str], title: str) -> str:
    """Return the picture: the rooms from top to bottom, what they import as arcs; those that lead up, in a cycle, are red."""
    step, left, wide = 26, 150, 560
    at = {room: 60 + step * n for n, room in enumerate(ordered)}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {70 + step * len(ordered)}" font-family="sans-serif" font-size="13">',
        f'<text x="10" y="24" font-size="15">{title}</text>',
    ]
    for room, others in graph.items():
        for other in sorted(others):
            a, b = at[other], at[room]
            bend = left + 14 + 9 * abs(b - a) / step
            colour = "#4477aa" if a < b else "#cc3311"
            opacity = 0.45 if a < b else 0.8
            lines.append(
                f'<path d="M {left + 4} {a - 4} C {bend} {a - 4}, {bend} {b - 4}, {left + 4} {b - 4}" fill="none" stroke="{colour}" '
                f'stroke-opacity="{opacity}"/>'
            )
    lines += [f'<text x="{left - 6}" y="{y}" text-anchor="end">{room}</text>' for room, y in at.items()]
    return "\n".join([*lines, "</svg>", ""])


def described(source: Path = SOURCE) -> str:
    """Return the rooms in order, a line each, with what they import."""
    graph = edges(source)
    ordered = order(graph)
    return "\n".join(f"{room:18} {' '.join(other for other in ordered if other in graph[room])}" for room in ordered)


def draw(source: Path, picture: Path) -> None:
    """Write the picture of the rooms; those in a cycle are put in the order of how many they import."""
    graph = edges(source)
    found = cycles(graph)
    ordered = sorted(graph, key=lambda room: (len(reached(graph, room)), len(graph[room]), room)) if found else order(graph)
    among = f", one of {len(found[0])} rooms" if len(found) == 1 else ""
    title = f"{len(graph)} rooms, {len(found)} {'cycle' if len(found) == 1 else 'cycles'}{among}"
    picture.write_text(svg(graph, ordered, title), encoding="utf-8")


if __name__ == "__main__":
    if "--text" in sys.argv:
        print(described())
    elif len(sys.argv) == 3:
        draw(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        draw(SOURCE, PICTURE)
