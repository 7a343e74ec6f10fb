"""The tree of bodies as rows of a table: each with its joint, the axes of that and its places in q and v."""

from __future__ import annotations

from collections.abc import Iterator

from catena.model.mechanism import Mechanism

#: The heads of the columns.
COLUMNS = ("body", "joint", "axis", "q", "v")


def outline(m: Mechanism, ascii_only: bool = False) -> list[tuple[str, ...]]:
    """Return the rows of the bodies of a mechanism, outward from the ground, with guide lines.

    >>> from catena.model.outline import outline
    >>> outline(examples.double_pendulum())[1:]
    [('└─ upper', 'revolute', 'y', '0', '0'), ('   └─ lower', 'revolute', 'y', '1', '1')]
    """
    places = {link.name: (link.joint, at_q, at_v) for link, at_q, at_v in m.slices()}
    rows = [("ground", "", "", "", "")]
    for guide, name in _outward(m, "ground", "", ascii_only):
        joint, at_q, at_v = places[name]
        axes = [_axis_text(getattr(joint, key)) for key in ("axis", "axis1", "axis2") if hasattr(joint, key)]
        rows.append((guide + name, joint.kind, ", ".join(axes), _range_text(at_q), _range_text(at_v)))
    return rows


def _outward(m: Mechanism, root: str, indent: str, ascii_only: bool) -> Iterator[tuple[str, str]]:
    """Yield the bodies outward from a root, each with the guide lines that lead to it."""
    children = [link.name for link in m.links if link.parent == root]
    for name in children:
        last = name == children[-1]
        fork, through = ("`- " if last else "+- ", "|  ") if ascii_only else ("└─ " if last else "├─ ", "│  ")
        yield indent + fork, name
        yield from _outward(m, name, indent + ("   " if last else through), ascii_only)


def _axis_text(axis: tuple[float, float, float]) -> str:
    letters = [f"{'-' if x < 0 else ''}{letter}" for letter, x in zip("xyz", axis, strict=True) if x]
    return letters[0] if len(letters) == 1 else vector_text(axis)


def vector_text(entries: tuple[float, ...]) -> str:
    """Return a vector in brackets, to four digits."""
    return f"({', '.join(f'{x:.4g}' for x in entries)})"


def _range_text(at: slice) -> str:
    return "" if at.start == at.stop else str(at.start) if at.stop == at.start + 1 else f"{at.start}..{at.stop - 1}"
