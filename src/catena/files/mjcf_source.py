"""An MJCF file before it is a model: its elements with their lines, checked before MuJoCo compiles it, and MuJoCo's model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, NoReturn

from catena.errors import ModelFileError, optional_package
from catena.files.mjcf_text import Text
from catena.files.xml_reader import Element
from catena.model.wording import unused


class Source:
    """The elements of an MJCF file, and MuJoCo's model of it."""

    def __init__(self, root: Element, ignore: Collection[str]) -> None:
        if root.tag != "mujoco":
            root.fail(f"the file begins with <{root.tag}>; an MJCF file begins with <mujoco>, a URDF file with <robot>")
        self.root, self.ignore = root, ignore
        self.text = Text(root)
        self.elements = self.text.elements
        self._listed: dict[str, list[Element]] = {}
        self._named: dict[tuple[str, str], Element] = {}
        for element in self.elements:
            if _in_model(element):
                self._listed.setdefault(element.tag, []).append(element)
                self._named.setdefault((element.tag, element.name or ""), element)
        self.library = optional_package("mujoco", f"{root.file}: reading MJCF needs MuJoCo", 'pip install "catena[files]"')
        self.warned: list[str] = []
        self.compiled = self._compiled()
        self.joint_kinds, self.equality_kinds, self.objects, self.geom_kinds = self.enums("Joint", "Eq", "Obj", "Geom")
        self.names = self._body_names()

    def enums(self, *names: str) -> list[SimpleNamespace]:
        """Return enumerations of MuJoCo, such as "Gain", as numbers by the names of their members."""
        return [_numbers(getattr(self.library, f"mjt{name}")) for name in names]

    def disabled(self, flag: str) -> bool:
        """Return whether the file switches something off, by the name that MuJoCo has for it."""
        bits = vars(_numbers(self.library.mjtDisableBit))
        names = (flag.lower(), "passive") if flag in ("SPRING", "DAMPER") else (flag.lower(),)  # older versions switch both off at once
        return any(self.compiled.opt.disableflags & bits[name] for name in names if name in bits)

    def element(self, tags: Collection[str], name: str | None = None, index: int = 0) -> Element:
        """Return the element of a thing, by its name or its number among its kind, or the root where it is not found."""
        if name:
            return next((self._named[tag, name] for tag in tags if (tag, name) in self._named), self.root)
        listed = self._listed.get(next(iter(tags)), []) if len(tags) == 1 else [e for e in self.elements if e.tag in tags and _in_model(e)]
        return listed[index] if index < len(listed) else self.root

    def _compiled(self) -> Any:
        before = self.library.get_mju_user_warning()
        # else MuJoCo writes a log into the current folder
        self.library.set_mju_user_warning(lambda text: self.warned.append(" ".join(str(text).split())))
        try:  # by way of a MjSpec, for MjModel.from_xml_string keeps a lock after some errors
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                compiled = self.library.MjSpec.from_string(self.text.text, include=self.text.assets, assets=self.text.assets).compile()
            self.warned += [" ".join(str(warning.message).split()) for warning in caught]
            return compiled
        except Exception as error:  # also of MuJoCo's own kinds, such as FatalError
            if not isinstance(error, (ValueError, RuntimeError)) and type(error).__module__.partition(".")[0] != "mujoco":
                raise
            said = " ".join(str(error).split())
        finally:
            self.library.set_mju_user_warning(before)
        self._refuse(re.sub(r"^(XML )?Error: ", "", said))

    def _refuse(self, said: str) -> NoReturn:
        """Raise MuJoCo's error with the element that it is about, by its line or its name; where it gives neither, an empty attribute."""
        lines, named = re.findall(r"line (\d+)", said), re.search(r"name '([^']+)'|name = '([^']+)'", said)
        said = re.sub(r", line \d+", "", said)
        at = self.root
        if lines:
            at = self.elements[min(int(lines[-1]), len(self.elements)) - 1]
        elif named:
            at = next((element for element in self.elements if element.name == (named[1] or named[2])), at)
        elif "unknown exception" in said or not said:
            empty = ((element, key) for element in self.elements for key, text in element.attributes.items() if not text.strip())
            at, key = next(empty, (at, ""))
            said = f"attribute '{key}' is empty" if key else "no reason given"
        raise ModelFileError(f"{at.file}:{at.line}: MuJoCo does not take the file: {said}; correct it")

    def name(self, kind: Any, i: int) -> str:
        """Return the name of a thing of a kind, empty where it has none."""
        return self.library.mj_id2name(self.compiled, kind, int(i)) or ""

    def _body_names(self) -> list[str]:
        """Return the names of all bodies, of which the first is the ground; those without one are numbered."""
        given = [self.name(self.objects.body, i) for i in range(self.compiled.nbody)]
        taken = {*given}
        names = ["ground"]
        for i, name in enumerate(given[1:], start=1):
            if name == "ground":
                self.element({"body"}, name).fail("'ground' is the name of the fixed frame; rename the body")
            names.append(name or unused(f"body{i}", taken))
        return names

    def joint_name(self, i: int) -> str:
        """Return the name of a joint, or one made of its body's."""
        return self.name(self.objects.joint, i) or f"{self.names[self.compiled.jnt_bodyid[i]]}.{i}"

    def joint_element(self, i: int) -> Element:
        """Return the element of a joint, that of its body where it has no name."""
        name = self.name(self.objects.joint, i)
        if name:
            return self.element({"joint", "freejoint"}, name)
        return self.element({"body"}, self.names[self.compiled.jnt_bodyid[i]])

    def dofs(self, i: int) -> slice:
        """Return the places of a joint in MuJoCo's velocities."""
        kinds, kind = self.joint_kinds, self.compiled.jnt_type[i]
        count = {kinds.free: 6, kinds.ball: 3}.get(int(kind), 1)
        return slice(int(self.compiled.jnt_dofadr[i]), int(self.compiled.jnt_dofadr[i]) + count)


def _numbers(enum: Any) -> SimpleNamespace:
    """Return the members of one of MuJoCo's enumerations as numbers, by their names without prefix."""
    return SimpleNamespace(**{name.partition("_")[2].lower(): int(member) for name, member in enum.__members__.items()})


def _in_model(element: Element) -> bool:
    """Return whether an element is one of the model's things, rather than a default of them."""
    at = element.parent
    while at is not None:
        if at.tag == "default":
            return False
        at = at.parent
    return True
