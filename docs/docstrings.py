"""Docstrings for the reference: examples become blocks of code, names of catena links."""

from __future__ import annotations

import re
from typing import Any

import griffe

import catena

_EXAMPLE = re.compile(r"^( *)>>> .*?(?=\n *\n|\Z)", re.M | re.S)
_NAME = re.compile(r"`ct\.(\w+)([^`]*)`")


class Docstrings(griffe.Extension):
    """Turns every docstring of the package into Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _markdown(obj.docstring.value)


def _markdown(text: str) -> str:
    text = _NAME.sub(lambda found: f"[{found[0]}][catena.{found[1]}]" if found[1] in catena.__all__ else found[0], text)
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
