"""What the reference shows: docstrings, which are Markdown, as the reStructuredText that autodoc reads."""

from __future__ import annotations

import re
from typing import Any

from related import related
from sphinx.application import Sphinx

from catena.facade import INTERNAL, Model

_LITERAL = re.compile(r"`([^`]+)`(?=(\w)?)")


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _convert)
    app.connect("autodoc-skip-member", _skip)


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members of models that are internal, and fields of tuples, of which Python says their number only."""
    internal = name in INTERNAL and getattr(Model, name, None) == obj
    return True if internal or str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def _convert(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured("\n".join(lines)).split("\n")
    room, _, public = name.rpartition(".")
    if room == "catena":
        names, about = related(public)
        listed = [*(f"``ct.{other}``" for other in names), *(f":doc:`/{page}`" for page in about)]
        lines += ["", f"See also {', '.join(listed)}.", ""]


def restructured(text: str) -> str:
    """Return paragraphs, lists, indented blocks and examples in Markdown as reStructuredText."""
    return "\n\n".join(_paragraph(part) for part in re.split(r"\n\s*?\n", text.strip("\n"))) + "\n"


def _paragraph(text: str) -> str:
    if text.startswith(">>>"):
        return text
    if text.startswith("    "):
        return f"::\n\n{text}"
    prose = re.sub(r"^(?!- |  )(.*)\n(?=- )", r"\1\n\n", text, flags=re.M)  # a list begins after an empty line
    pieces = re.split(r"(`[^`]+`)", prose)
    for i, piece in enumerate(pieces):
        if i % 2:
            pieces[i] = f"`{piece}`" + "\\ " * pieces[i + 1][:1].isalnum()
        else:  # stars are transposes and products, bars are absolute values
            pieces[i] = re.sub(r"([*|\\]|_\b)", r"\\\1", piece)
    return "".join(pieces)
