"""The documentation site is built without a warning, and has every public name, page, picture and link where it belongs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

import catena as ct
from catena import cli
from catena.examples import EXAMPLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages of the site, by their places; it is built in another folder."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(folder / "site")]
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}  # of this tree, wherever another is installed
    done = subprocess.run(build, cwd=folder, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.findall(r"WARNING|ERROR|Warning|Error", done.stdout + done.stderr), done.stderr
    assert not list(folder.rglob("*.py"))
    return {path.relative_to(folder / "site").as_posix(): _text(path) for path in folder.rglob("*") if path.is_file()}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.suffix in (".html", ".css") else ""


def listed(entry: Any) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in listed(part)]


@pytest.mark.pages
def test_every_public_name_is_in_the_reference_once(site: dict[str, str]) -> None:
    asked = re.findall(r"^::: catena\.(\w+)$", "\n".join(PAGES.values()), re.M)
    assert sorted(asked) == sorted(ct.__all__)
    html = "\n".join(site.values())
    for name in ct.__all__:
        kind = "class" if isinstance(getattr(ct, name), type) else "function"
        (heading,) = re.findall(rf'id="catena\.{name}".*?class="doc doc-object-name doc-(\w+)-name">(\w+)<', html, re.S)
        assert heading == (kind, name)


@pytest.mark.quick
def test_every_page_is_in_the_navigation_once() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed(settings["nav"])) == sorted([*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])


@pytest.mark.pages
def test_links_of_the_site_lead_somewhere(site: dict[str, str]) -> None:
    """Files and anchors, whatever the builder thinks of them."""
    anchors = {page: {unescape(name) for name in re.findall(r'\b(?:id|name)="([^"]+)"', html)} for page, html in site.items()}
    for page, html in site.items():
        if not page.endswith(".html") or page == "404.html":
            continue
        for link in set(re.findall(r'(?:href|src)="([^"]+)"', html)):
            target, _, anchor = unquote(unescape(link)).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            place = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
            assert place in site, (page, link)
            assert not anchor or anchor in anchors.get(place, set()), (page, link)


@pytest.mark.pages
def test_nothing_is_fetched_from_elsewhere(site: dict[str, str]) -> None:
    for page, text in site.items():
        assert not re.search(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//', text), page
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", text), page


@pytest.mark.pages
def test_examples_of_docstrings_are_code(site: dict[str, str]) -> None:
    pages = {page: html for page, html in site.items() if page.startswith("reference/")}
    assert sum(html.count("&gt;&gt;&gt;") for html in pages.values()) > 200
    for page, html in pages.items():
        assert "&gt;&gt;&gt;" not in re.sub(r"<pre>.*?</pre>", "", html, flags=re.S), page


@pytest.mark.quick
def test_every_picture_is_shown_and_small() -> None:
    shown = {name for text in PAGES.values() for name in re.findall(r"\]\((?:\.\./)?pictures/([^)]+)\)", text)}
    folder = DOCS / "pictures"
    kept = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert shown == set(kept)
    assert sum(kept.values()) < 2_000_000


@pytest.mark.pages
def test_gallery_shows_every_example(site: dict[str, str]) -> None:
    for script in sorted((ROOT / "examples").glob("*.py")):
        assert f"](../examples/{script.name})" in PAGES["gallery.md"], script
        page = site[f"examples/{script.name}.html"]
        assert (f"pictures/{script.stem}.png" in page) == (DOCS / "pictures" / f"{script.stem}.png").exists()
    for name in EXAMPLES:
        assert f"](pictures/models/{name}.png)<br>`{name}`: " in PAGES["gallery.md"], name


@pytest.mark.pages
def test_every_command_has_its_section(site: dict[str, str]) -> None:
    assert len(cli.app.registered_commands) >= 6
    for command in cli.app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        assert f">catena {name}<" in site["command-line.html"]
        assert f"Usage: catena {name} " in site["command-line.html"]


@pytest.fixture
def notebooks() -> Any:
    """The script that writes notebooks."""
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.quick
def test_cells_of_a_tutorial_are_its_page(notebooks: Any) -> None:
    for path in sorted(DOCS.glob("tutorials/*.md")):
        text = path.read_text(encoding="utf-8")
        parts = list(notebooks.cells(text))
        code = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        assert [part for kind, part in parts if kind == "code"] == [part.strip() for part in code]
        shown = [file for kind, part in parts if kind == "pictures" for file in part.split("\n")]
        assert shown == re.findall(r"\]\(\.\./pictures/([^)]+)\)", text)
        prose = "\n\n".join(part for kind, part in parts if kind == "markdown")
        assert headings(prose) == headings(text)


def headings(text: str) -> list[str]:
    """The headings of a page."""
    return re.findall(r"^#.*$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)


@pytest.mark.pages
def test_a_notebook_runs_and_plays_its_run(notebooks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    notebooks.write(tmp_path)
    assert sorted(file.stem for file in tmp_path.glob("*.ipynb")) == sorted(notebooks.NOTEBOOKS)
    book = nbformat.read(tmp_path / "balance.ipynb", as_version=4)
    nbformat.validate(book)
    links = [link for cell in book.cells if cell.cell_type == "markdown" for link in re.findall(r"\]\(([^)#\s]+)", cell.source)]
    assert links
    assert all((tmp_path / link).is_file() for link in links)
    nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cell.outputs for cell in book.cells if cell.cell_type == "code"]
    printed = "".join(output.text for cell in outputs for output in cell if output.output_type == "stream")
    text = (DOCS / "tutorials" / "balance.md").read_text(encoding="utf-8")
    assert printed == "".join(re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S))
    (played,) = outputs[-1]
    assert "<iframe" in played.data["text/html"]
    assert (tmp_path / "balance.html").stat().st_size > 100_000
