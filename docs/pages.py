"""What the site has besides the pages of this folder: code of the repository as pages, links to it and to the reference, and the help of
the command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from typer.testing import CliRunner

import catena
from catena.cli.app import COMMANDS
from catena.cli.app import app as command

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent

#: Pages that stand at the root of the repository, and the pages of the site that include them.
AT_ROOT = {"CHANGELOG": "changelog", "CONTRIBUTING": "contributing"}

_NAME = re.compile(r"ct\.(\w+)((?:\.\w+)*)\b.*", re.S)
_PATH = re.compile(r"(?:\w+/)+\w+\.py")


def setup(app: Sphinx) -> None:
    app.add_transform(Links)
    app.connect("source-read", _write_commands)
    app.connect("env-purge-doc", _forget)
    app.connect("env-merge-info", _merge)
    app.connect("html-collect-pages", _code_pages)
    app.connect("html-page-context", partial(_shared_navigation, {}), priority=100)  # before the theme asks for it


class Links(SphinxTransform):
    """Leads links to where files are on the site, and makes links of paths and of names of catena."""

    default_priority = 400  # before files that are linked to are gathered as downloads

    def apply(self, **kwargs: Any) -> None:
        for link in list(self.document.findall(addnodes.download_reference)):
            path = Path(os.path.normpath(DOCS / os.path.dirname(self.env.docname) / link["reftarget"]))
            if path.suffix == ".py":
                link.replace_self(self._code_link(path, *link.children))
        for link in self.document.findall(addnodes.pending_xref):
            link["reftarget"] = AT_ROOT.get(os.path.basename(link["reftarget"]), link["reftarget"])
        seen: set[str] = set()
        for code in list(self.document.findall(nodes.literal)):
            if _inside(code, nodes.reference, nodes.title, addnodes.pending_xref, addnodes.desc_signature):
                continue
            if _PATH.fullmatch(code.astext()) and (path := _named(code.astext())):
                if _inside(code, nodes.entry):  # a table has room for the name of a file only
                    code.replace_self(self._code_link(path, nodes.literal("", path.name)))
                else:
                    code.replace_self(self._code_link(path, code.deepcopy()))
            elif (found := _NAME.fullmatch(code.astext())) and found[1] in catena.__all__:
                if found[1] not in seen or _inside(code, addnodes.desc_content):  # on a page the first time, in the reference always
                    code.replace_self(_reference(found[1], found[2], code.deepcopy()))
                seen.add(found[1])

    def _code_link(self, path: Path, *shown: nodes.Node) -> nodes.reference:
        _linked(self.env).setdefault(self.env.docname, set()).add(path)
        uri = os.path.relpath(f"{_page(path)}.html", os.path.dirname(self.env.docname) or ".")
        return nodes.reference("", "", *shown, refuri=uri, internal=True)


def _reference(name: str, members: str, shown: nodes.Node) -> addnodes.pending_xref:
    """Return a link to a public name, or to its member."""
    target = f"catena.{name}"
    there: Any = getattr(catena, name)
    for member in members.split(".")[1:]:
        there = getattr(there, member, None)
        target = f"{target}.{member}" if there is not None else target
    return addnodes.pending_xref("", shown, refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refspecific=False)


def _inside(node: nodes.Node, *kinds: type) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def _named(path: str) -> Path | None:
    """Return the file that a page names by its path, from the root of the repository or of the package."""
    return next((base / path for base in (ROOT, ROOT / "src", ROOT / "src" / "catena") if (base / path).is_file()), None)


def _page(path: Path) -> str:
    """Return the page of the site that shows a file of code."""
    return f"code/{path.relative_to(ROOT).as_posix()}"


def _linked(env: Any) -> dict[str, set[Path]]:
    """Return the files of code that each page links to."""
    if not hasattr(env, "catena_code"):
        env.catena_code = {}
    return env.catena_code


def _forget(app: Sphinx, env: Any, page: str) -> None:
    _linked(env).pop(page, None)


def _merge(app: Sphinx, env: Any, pages: list[str], other: Any) -> None:
    _linked(env).update(_linked(other))


def _code_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for every file of code that pages link to, below its picture if it draws one."""
    builder: Any = app.builder
    for path in sorted(set().union(*_linked(app.env).values())):
        name, inside = _page(path), path.relative_to(ROOT)
        picture = f"pictures/{path.stem}.png"
        shown = ""
        if inside.parts[0] == "examples" and picture in app.env.images:
            images = os.path.relpath(builder.imagedir, os.path.dirname(name))
            shown = f'<p><img src="{images}/{app.env.images[picture][1]}" alt="What {path.name} draws"></p>'
        text = builder.highlighter.highlight_block(path.read_text(encoding="utf-8"), "python")
        body = f'<h1>{inside.as_posix()}</h1>{shown}<div class="highlight-python notranslate">{text}</div>'
        yield name, {"title": inside.as_posix(), "body": body}, "page.html"


def _shared_navigation(made: dict[Any, str], app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Make the navigation of pages of code once for each folder, for it takes longer than the rest of such a page."""
    if page.startswith("code/"):
        make, folder = context["toctree"], os.path.dirname(page)

        def navigation(**settings: Any) -> str:
            key = folder, *settings.items()
            if key not in made:
                made[key] = make(**settings)
            return made[key]

        context["toctree"] = navigation


def _write_commands(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write out the help of the command on its page."""
    if docname == "command-line":
        source[0] = source[0].replace("<!-- commands -->", _commands())


def _commands() -> str:
    """Return a section for every command, with the help that it prints."""
    return "\n\n".join(f"## catena {name}\n\n```text\n{_help(name)}\n```" for name in sorted(COMMANDS))


def _help(name: str) -> str:
    return CliRunner().invoke(command, [name, "--help"], prog_name="catena", catch_exceptions=False).stdout.strip()
