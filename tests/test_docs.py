"""The documentation site is built without a warning, and has every public name, page, picture and link where it belongs."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from PIL import Image
from tests import chromium

import catena as ct
from catena.cli.app import COMMANDS
from catena.examples import EXAMPLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, which is built there."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "doctrees"), str(DOCS), str(folder / "site")]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # of this tree, wherever another is installed
    done = subprocess.run(build, cwd=folder, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not re.findall(r"WARNING|ERROR|Warning|Error", done.stdout + done.stderr), done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def site(folder: Path) -> dict[str, str]:
    """The pages of the site, by their places."""
    return {path.relative_to(folder).as_posix(): _text(path) for path in folder.rglob("*") if path.is_file()}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.suffix in (".html", ".css") else ""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium.started(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


def listed(page: str) -> list[str]:
    """The pages of the navigation, from a page on."""
    entries = [line for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", PAGES[page], re.M | re.S) for line in tree.split("\n")]
    names = [re.sub(r".*<(.*)>", r"\1", line) for line in entries if line and not line.startswith(":")]
    below = [os.path.normpath(os.path.join(os.path.dirname(page), f"{name}.md")) for name in names if name != "self"]
    return [page, *(found for one in below for found in listed(one))]


@pytest.mark.pages
def test_every_public_name_is_in_the_reference_once(site: dict[str, str]) -> None:
    asked = re.findall(r"^\.\. auto\w+:: catena\.(\w+)$", "\n".join(PAGES.values()), re.M)
    assert sorted(asked) == sorted(ct.__all__)
    entry = r'<dl class="py (\w+)">\s*<dt class="sig sig-object py" id="catena\.(\w+)">'
    assert sorted(found for html in site.values() for found in re.findall(entry, html)) == sorted(map(_entry, ct.__all__))


def _entry(name: str) -> tuple[str, str]:
    """What kind of entry a public name has in the reference, and the name."""
    found = getattr(ct, name)
    kind = ("exception" if issubclass(found, Exception) else "class") if isinstance(found, type) else "function"
    return kind, name


@pytest.mark.quick
def test_every_public_name_is_related_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    related = importlib.import_module("related")
    assert {name for _, names in related.GROUPS for name in names} == {*ct.__all__}
    assert all((DOCS / f"{page}.md").is_file() for page, _ in related.GROUPS)
    assert all(related.related(name)[0] for name in ct.__all__)


@pytest.mark.quick
def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(listed("index.md")) == sorted(PAGES)


@pytest.mark.pages
def test_links_of_the_site_lead_somewhere(site: dict[str, str]) -> None:
    """Files and anchors, whatever the builder thinks of them."""
    anchors = {page: {unescape(name) for name in re.findall(r'\b(?:id|name)="([^"]+)"', html)} for page, html in site.items()}
    for page, html in site.items():
        if not page.endswith(".html"):
            continue
        for link in set(re.findall(r'<[^<>]*\s(?:href|src)="([^"]+)"', html)):
            target, _, anchor = unquote(unescape(link)).partition("#")
            target = target.partition("?")[0]  # the version of a file
            if re.match(r"[a-z]+:", target):
                continue
            place = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
            assert place in site, (page, link)
            assert not anchor or anchor in anchors.get(place, set()), (page, link)


@pytest.mark.pages
def test_names_of_catena_are_links_to_the_reference(site: dict[str, str]) -> None:
    """On every page, at least the first time that prose has them."""
    code, checked = r'<code[^>]*><span class="pre">ct\.(\w+)', 0
    for page, html in site.items():
        prose = re.sub(r"<h\d>.*?</h\d>|<a .*?</a>", lambda tag: tag[0] if tag[0].startswith("<a") else "", html, flags=re.S)
        named = {name for name in re.findall(code, prose) if name in ct.__all__}
        linked = set(re.findall(rf'<a [^>]*href="[^"]+"[^>]*>(?:<span[^>]*>)?{code}', prose))
        assert named == linked & named, (page, named - linked)
        checked += len(named)
    assert checked > 200


@pytest.mark.pages
def test_nothing_is_fetched_from_elsewhere(site: dict[str, str]) -> None:
    for page, text in site.items():
        assert not re.search(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//', text), page
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", text), page


@pytest.mark.pages
@chromium.needed
def test_pages_are_shown_without_errors(folder: Path, site: dict[str, str], browser: Any) -> None:
    """From the folder, on a phone: formulas are typeset, code can be copied, nothing is wider than the screen, and all that is loaded is in
    the folder."""
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    typeset = 0
    for page in (page for page in site if page.endswith(".html") and not page.startswith("code/")):
        browser.get((folder / page).as_uri())
        count = site[page].count('class="math notranslate')
        formulas = "return document.querySelectorAll('.math mjx-container').length"
        chromium.until(lambda count=count, formulas=formulas: browser.execute_script(formulas) == count, f"the formulas of {page}")
        assert not browser.execute_script("return document.querySelectorAll('[data-mjx-error]').length"), page
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, page
        counted = "return ['pre', '.copybtn'].map(kind => document.querySelectorAll('.highlight-python ' + kind).length)"
        code, buttons = browser.execute_script(counted)
        assert code == buttons, page
        loaded = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert all(name.startswith((folder.as_uri(), "data:")) for name in loaded), page
        assert not chromium.problems(browser), page
        typeset += count
    assert typeset > 500


@pytest.mark.pages
@chromium.needed
@pytest.mark.parametrize(("words", "target"), [("bushing", "own-parts.html"), ("inverse_dynamics", "reference/kernels.html")])
def test_the_search_works_from_the_folder(folder: Path, browser: Any, words: str, target: str) -> None:
    browser.get((folder / "search.html").as_uri() + f"?q={words}")
    found = "return Array.from(document.querySelectorAll('#search-results li a'), link => link.href)"
    chromium.until(lambda: any(target in link for link in browser.execute_script(found)), f"a result on {target}")
    assert not chromium.problems(browser)


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
def test_theory_shows_the_figures_that_are_drawn_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page has some, and every figure of the folder has the size of the one that is drawn now."""
    monkeypatch.syspath_prepend(str(DOCS))
    figures = importlib.import_module("figures")
    shown = {page: re.findall(r"\]\(pictures/(theory-[^)]+)\)", PAGES[page]) for page in listed("theory.md")[1:]}
    assert all(shown.values()), shown
    drawn = {file.name: _size(file) for file in figures.draw(tmp_path)}
    assert sorted(drawn) == sorted(name for names in shown.values() for name in names)
    assert drawn == {name: _size(DOCS / "pictures" / name) for name in drawn}


def _size(picture: Path) -> tuple[int, int]:
    with Image.open(picture) as image:
        return image.size


@pytest.mark.pages
def test_gallery_shows_every_example(site: dict[str, str]) -> None:
    for script in sorted((ROOT / "examples").glob("*.py")):
        assert f"](../examples/{script.name})" in PAGES["gallery.md"], script
        page = site[f"code/examples/{script.name}.html"]
        assert (f"_images/{script.stem}.png" in page) == (DOCS / "pictures" / f"{script.stem}.png").exists()
    for name in EXAMPLES:
        assert f"](pictures/models/{name}.png)<br>`{name}`: " in PAGES["gallery.md"], name


@pytest.mark.pages
def test_every_command_has_its_section(site: dict[str, str]) -> None:
    for name in COMMANDS:
        assert f"<h2>catena {name}<" in site["command-line.html"]
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
