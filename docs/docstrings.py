"""What the reference shows: public names as they are in Python; docstrings with examples as blocks of code and names as links."""

from __future__ import annotations

import importlib
import re
from typing import Any

import griffe

import catena
from catena.facade import INTERNAL
from catena.model import Builder, Mechanism

_EXAMPLE = re.compile(r"^( *)>>> .*?(?=\n *\n|\Z)", re.M | re.S)
_NAME = re.compile(r"`ct\.(\w+)[^`]*`")
_CODE = re.compile(r"(```.*?```|`[^`]*`|^ {4}[^\n]*$)", re.M | re.S)

_BASES = {f"{kind.__module__}.{kind.__qualname__}" for kind in (Builder, *Mechanism.__mro__)}


class Docstrings(griffe.Extension):
    """Turns every docstring of the package into Markdown; members of models that are internal have none, and are not shown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.name in INTERNAL and obj.parent is not None and obj.parent.path in _BASES:
            obj.docstring = None
        if obj.docstring:
            obj.docstring.value = _markdown(obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Show the value of a default that has a private name."""
        for parameter in func.parameters:
            if str(parameter.default).startswith("_"):
                module = importlib.import_module(func.module.path)
                parameter.default = repr(getattr(module, str(parameter.default)))

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Let public names stand for what they are in Python, where a module bears the same name."""
        objects = {name: getattr(catena, name) for name in catena.__all__}
        targets = {name: loader.modules_collection[f"{x.__module__}.{x.__qualname__}"] for name, x in objects.items()}
        for name, target in targets.items():
            pkg.set_member(name, griffe.Alias(name, target, parent=pkg))


def _markdown(text: str) -> str:
    parts = _CODE.split(_EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text))
    for i, part in enumerate(parts):
        if i % 2 == 0:  # prose: stars are transposes and products, and brackets are brackets
            parts[i] = part.replace("*", "\\*").replace("<", "&lt;")
        elif (name := _NAME.fullmatch(part)) and name[1] in catena.__all__:
            parts[i] = f"[{part}][catena.{name[1]}]"
    return "".join(parts)
