"""What the site has besides the pages of this folder: files of the repository as pages, links to them, and the options of the command."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel
from typer.testing import CliRunner

import catena
from catena.cli import app

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent

#: Pages that stand at the root of the repository.
AT_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md")

_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^ *```.*?^ *```$)", re.M | re.S)
_NAME = re.compile(r"(?<!\[)`ct\.(\w+)([^`]*)`(?!\])")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the root, and a page for every file outside of this folder that a page links to."""
    for name in AT_ROOT:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for page in list(files.documentation_pages()):
        for target, _ in _LINK.findall(page.content_string):
            path = _place(page.src_uri, target)
            if _is_source(path) and files.get_file_from_path(_uri(path)) is None:
                files.append(File.generated(config, _uri(path), content=_source_page(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links to where files are on the site, names of catena to the reference, and write out the options of the command."""
    here = page.file.src_uri
    seen: set[str] = set()

    def link(match: re.Match) -> str:
        path = _place(here, match[1])
        return f"]({os.path.relpath(_uri(path), os.path.dirname(here) or '.')}{match[2] or ''})" if path.is_file() else match[0]

    def name(match: re.Match) -> str:
        if match[1] in seen or match[1] not in catena.__all__:
            return match[0]
        seen.add(match[1])
        return f"[{match[0]}][catena.{match[1]}]"

    parts = _CODE.split(markdown)
    for i in range(0, len(parts), 2):  # between the blocks of code
        lines = [line if line.startswith(("#", "    ")) else _NAME.sub(name, line) for line in _LINK.sub(link, parts[i]).split("\n")]
        parts[i] = "\n".join(lines)
    return "".join(parts).replace("<!-- commands -->", _commands() if here == "command-line.md" else "")


def _place(uri: str, target: str) -> Path:
    """Return the file that a page of the site links to, as it stands in the repository."""
    folder = ROOT if uri in AT_ROOT else DOCS / os.path.dirname(uri)
    return Path(os.path.normpath(folder / target))


def _uri(path: Path) -> str:
    """Return where a file of the repository is on the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    inside = path.relative_to(ROOT).as_posix()
    return inside if inside in AT_ROOT else f"{inside}.md"


def _is_source(path: Path) -> bool:
    return path.is_relative_to(ROOT) and not path.is_relative_to(DOCS) and path.name not in AT_ROOT and path.is_file()


def _source_page(path: Path) -> str:
    """Return a page that shows a file, below its picture if it draws one."""
    inside = path.relative_to(ROOT)
    picture = DOCS / "pictures" / f"{path.stem}.png"
    up = "../" * (len(inside.parts) - 1)
    shown = f"![What {path.name} draws]({up}pictures/{picture.name})\n\n" if inside.parts[0] == "examples" and picture.exists() else ""
    return f"# {inside.as_posix()}\n\n{shown}````{'python' if path.suffix == '.py' else 'text'}\n{path.read_text(encoding='utf-8')}````\n"


def _commands() -> str:
    """Return a section for every command, with the help that it prints."""
    names = [name for name in map(_name, app.registered_commands) if name]
    return "\n\n".join(f"## catena {name}\n\n```text\n{_help(name)}\n```" for name in sorted(names))


def _name(command: Any) -> str:
    return command.name or command.callback.__name__.replace("_", "-")


def _help(name: str) -> str:
    done = CliRunner().invoke(app, [name, "--help"], prog_name="catena", env={"COLUMNS": "100", "TERM": "dumb"}, catch_exceptions=False)
    return done.stdout.strip()
