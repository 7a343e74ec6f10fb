"""What the site has besides the pages of this folder: code of the repository as pages, links to it, and the help of the command."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files, InclusionLevel
from typer.testing import CliRunner

import catena
from catena.cli.app import COMMANDS, app

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent

#: Pages that stand at the root of the repository.
AT_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md")

_FORMULA = re.compile(r"^```math\n(.*?)^```$", re.M | re.S)
_BLOCK = re.compile(r"(^ *```.*?^ *```$)", re.M | re.S)
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_PATH = re.compile(r"(?<!\[)`((?:\w+/)+\w+\.py)`(?!\])")
_NAME = re.compile(r"(?<!\[)`ct\.(\w+)[^`]*`(?!\])")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the root, and one for every file of code that a page links to or names."""
    for name in AT_ROOT:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for page in list(files.documentation_pages()):
        for path in [_linked(page.src_uri, found[1]) for found in _LINK.finditer(page.content_string)] + [
            path for found in _PATH.finditer(page.content_string) if (path := _named(found[1]))
        ]:
            if path.suffix == ".py" and path.is_file() and files.get_file_from_path(_uri(path)) is None:
                files.append(File.generated(config, _uri(path), content=_source(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links to where files are on the site, make links of paths and of names of catena, and write out the help of the command."""
    here = page.file.src_uri
    seen: set[str] = set()

    def towards(path: Path) -> str:
        return os.path.relpath(_uri(path), os.path.dirname(here) or ".")

    def link(found: re.Match) -> str:
        path = _linked(here, found[1])
        return f"]({towards(path)}{found[2] or ''})" if path.is_file() else found[0]

    def path(found: re.Match) -> str:
        path = _named(found[1])
        if path is None:
            return found[0]
        if found.string.startswith("|"):  # a table has room for the name of a file only, and that in pieces
            return f"[<code>{path.name.replace('_', '_<wbr>')}</code>]({towards(path)})"
        return f"[{found[0]}]({towards(path)})"

    def name(found: re.Match) -> str:  # the first time on a page
        if found[1] in seen or found[1] not in catena.__all__:
            return found[0]
        seen.add(found[1])
        return f"[{found[0]}][catena.{found[1]}]"

    markdown = _FORMULA.sub(lambda found: f"<div>{convert(found[1].strip(), display='block')}</div>", markdown)
    parts = _BLOCK.split(markdown)
    for i in range(0, len(parts), 2):  # between the blocks of code
        lines = _LINK.sub(link, parts[i]).split("\n")
        parts[i] = "\n".join(line if line.startswith(("#", "    ")) else _NAME.sub(name, _PATH.sub(path, line)) for line in lines)
    return "".join(parts).replace("<!-- commands -->", _commands() if here == "command-line.md" else "")


def _linked(uri: str, target: str) -> Path:
    """Return the file that a page links to, as it stands in the repository."""
    folder = ROOT if uri in AT_ROOT else DOCS / os.path.dirname(uri)
    return Path(os.path.normpath(folder / target))


def _named(path: str) -> Path | None:
    """Return the file that a page names by its path, from the root of the repository or of the package."""
    return next((base / path for base in (ROOT, ROOT / "src", ROOT / "src" / "catena") if (base / path).is_file()), None)


def _uri(path: Path) -> str:
    """Return where a file of the repository is on the site."""
    if path.suffix == ".py":
        return f"{path.relative_to(ROOT).as_posix()}.md"
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def _source(path: Path) -> str:
    """Return a page that shows a file, below its picture if it draws one."""
    inside, picture = path.relative_to(ROOT), f"{path.stem}.png"
    drawn = inside.parts[0] == "examples" and (DOCS / "pictures" / picture).exists()
    shown = f"![What {path.name} draws](../pictures/{picture})\n\n" if drawn else ""
    head = "---\nsearch:\n  exclude: true\n---\n\n" if inside.parts[0] != "examples" else ""
    return f"{head}# {inside.as_posix()}\n\n{shown}````python\n{path.read_text(encoding='utf-8')}````\n"


def _commands() -> str:
    """Return a section for every command, with the help that it prints."""
    return "\n\n".join(f"## catena {name}\n\n```text\n{_help(name)}\n```" for name in sorted(COMMANDS))


def _help(name: str) -> str:
    return CliRunner().invoke(app, [name, "--help"], prog_name="catena", catch_exceptions=False).stdout.strip()
