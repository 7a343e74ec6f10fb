"""Reads XML as data: elements with their lines, and numbers, names and places from their attributes.

There are no document types and no entities but XML's own five, nothing else is opened, and depth and number of elements are limited: so no
file takes more than its size in time or memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

from catena.errors import ModelError, ModelFileError
from catena.model.pose import Pose
from catena.model.wording import choice, placed_warnings, short

#: How deep elements may be nested, how many there may be, and how large numbers.
DEPTH, ELEMENTS, LARGEST = 100, 50_000, 1e50

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(eq=False)
class Element:
    """An element: its tag, attributes and children, the text before its first child, and the file and line where it begins."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def __iter__(self) -> Iterator[Element]:
        return iter(self.children)

    def all(self) -> Iterator[Element]:
        """Yield the element and everything in it, in the order of the file."""
        stack: list[Element] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))

    @property
    def name(self) -> str | None:
        return self.attributes.get("name")

    @property
    def what(self) -> str:
        """The element as it is called in messages: with its name, or the name of what it belongs to."""
        owner: Element | None = self
        while owner is not None and (owner.name is None or owner.parent is None):
            owner = owner.parent
        if owner is None:
            return f"<{self.tag}>"
        named = f"{owner.tag} {short(owner.name)}"
        return named if owner is self else f"<{self.tag}> of {named}"

    def where(self) -> str:
        """Return file, line and element, as messages begin."""
        return f"{self.file}:{self.line}: {self.what}"

    def fail(self, message: str) -> NoReturn:
        raise ModelFileError(f"{self.where()}: {message}")

    def build(self, make: Callable[..., Any], *positional: Any, **named: Any) -> Any:
        """Return `make(...)`; its warnings and errors are repeated with file and line."""
        with placed_warnings(self.where):
            return self.attempt(make, *positional, **named)

    def attempt(self, make: Callable[..., Any], *positional: Any, **named: Any) -> Any:
        """Return `make(...)`; an error that has no place yet gets that of this element."""
        try:
            return make(*positional, **named)
        except ModelFileError:
            raise
        except ModelError as error:
            raise ModelFileError(f"{self.file}:{self.line}: {error}") from None

    def only(self, tag: str) -> Element | None:
        """Return the child with a tag, of which there may be one."""
        children = [child for child in self if child.tag == tag]
        if children[1:]:
            children[1].fail(f"this is the second <{tag}>, of which there may be one; remove one of them")
        return children[0] if children else None

    def need(self, tag: str) -> Element:
        """Return the child with a tag, which must be there."""
        child = self.only(tag)
        return self.fail(f"<{tag}> is missing; add it") if child is None else child

    def known(self, *attributes: str) -> None:
        """Refuse attributes other than these."""
        for key in self.attributes:
            if key not in attributes:
                self.fail(f"unknown attribute {short(key)}; {choice(key, attributes)}")

    def word(self, key: str, among: Collection[str] = ()) -> str:
        """Return an attribute that is a word, one of those among which it must be."""
        text = self.attributes.get(key)
        if text is None:
            self.fail(f"attribute '{key}' is missing; add it")
        if not text.strip():
            self.fail(f"attribute '{key}' {text!r} is empty; give a name")
        if among and text not in among:
            self.fail(f"{key} {short(text)} is unknown; {choice(text, among)}")
        return text

    def numbers(self, key: str, count: int, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """Return an attribute that is so many numbers."""
        if key not in self.attributes:
            return self.fail(f"attribute '{key}' is missing; add it") if default is None else default
        text = self.attributes[key]
        words = text.split(maxsplit=count)
        numbers = [float(word) for word in words if _NUMBER.fullmatch(word)]
        form = "a finite number" if count == 1 else f"{count} finite numbers"
        if len(words) != count or len(numbers) != count:
            self.fail(f"{key} {short(text)} is not {form}; give {form}")
        if not all(abs(number) <= LARGEST for number in numbers):
            self.fail(f"{key} {short(text)} goes beyond {LARGEST:g}; give {form} in metres, kilograms, seconds and radians")
        return tuple(numbers)

    def number(self, key: str, default: float | None = None) -> float:
        (value,) = self.numbers(key, 1, None if default is None else (default,))
        return value

    def pose(self) -> Pose:
        """Return the pose of the child <origin>; without one the identity."""
        origin = self.only("origin")
        if origin is None:
            return Pose()
        origin.known("xyz", "rpy")
        return Pose(origin.numbers("xyz", 3, (0.0, 0.0, 0.0)), rpy=origin.numbers("rpy", 3, (0.0, 0.0, 0.0)))


def parsed(content: bytes, file: str) -> Element:
    """Return the root element of an XML file."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    stack: list[Element] = []
    root: list[Element] = []
    count = 0

    def fail(message: str) -> NoReturn:
        raise ModelFileError(f"{file}:{parser.CurrentLineNumber}: {message}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > ELEMENTS:
            fail(f"there are more than {ELEMENTS:,} elements; give a smaller file")
        if len(stack) >= DEPTH:
            fail(f"elements are nested more than {DEPTH} deep; flatten them")
        element = Element(tag, attributes, file, parser.CurrentLineNumber, stack[-1] if stack else None)
        (stack[-1].children if stack else root).append(element)
        stack.append(element)

    def text(data: str) -> None:
        if stack and not stack[-1].children:
            stack[-1].text += data

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: stack.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = lambda *_: fail("a document type (<!DOCTYPE>) is not read, as it may define entities; remove it")
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        said = f"not XML at column {error.offset + 1}: {expat.ErrorString(error.code)}"
        raise ModelFileError(f"{file}:{error.lineno}: {said}; correct it") from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not know, or cannot use
        if isinstance(error, ModelFileError):
            raise
        fail(f"the encoding cannot be read ({error}); save the file as UTF-8")
    return root[0]
