"""Writes tutorials as notebooks: `make notebooks`, or `python docs/notebooks.py FOLDER`. A page is the source of its notebook.

Text becomes cells of Markdown and Python cells of code. What the page shows as printed is left out: the notebook prints it when it runs.
A cell shows each picture that the code of the page draws. Notebooks end with a page that plays the run, inside the notebook.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parent / "tutorials"

#: The tutorials that are notebooks, too; each has a trajectory `run`.
NOTEBOOKS = ("reach", "balance", "delta")

_CODE = re.compile(r"^```python\n(.*?)^```\n\n```text\n.*?^```\n", re.M | re.S)
_PICTURES = re.compile(r"^!\[.*\]\(\.\./pictures/[^)]+\)$", re.M)
_FILE = re.compile(r"\.\./pictures/([^)]+)")
_LINK = re.compile(r"\]\(([^)#:\s]+)")

_PLAY = """from IPython.display import IFrame

run.animate("{name}.html")                 # any browser opens it, without a network
IFrame("{name}.html", width="100%", height=480)"""


def cells(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of the cells of a page: "markdown", "code", or "pictures" with a line for each file."""
    for i, part in enumerate(_CODE.split(text)):
        if i % 2:
            yield "code", part.strip()
            continue
        at = 0
        for found in _PICTURES.finditer(part):
            yield from _markdown(part[at : found.start()])
            yield "pictures", "\n".join(_FILE.findall(found[0]))
            at = found.end()
        yield from _markdown(part[at:])


def _markdown(text: str) -> Iterator[tuple[str, str]]:
    if text.strip():
        yield "markdown", text.strip()


def notebook(name: str, folder: Path) -> Any:
    """Return a tutorial as a notebook that stands in a folder, from which its links lead to other pages."""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook  # here, because pictures are drawn without it

    found = []
    for kind, text in cells((TUTORIALS / f"{name}.md").read_text(encoding="utf-8")):
        if kind == "markdown":
            found.append(new_markdown_cell(_LINK.sub(lambda link: f"]({os.path.relpath(TUTORIALS / link[1], folder)}", text)))
        elif kind == "code":
            found.append(new_code_cell(text))
        else:
            shown = "\n".join(f'display(Image(filename="{file}"))' for file in text.split("\n"))
            found.append(new_code_cell(f"from IPython.display import Image, display\n\n{shown}"))
    last = max(i for i, cell in enumerate(found) if cell.cell_type == "code")
    found.insert(last + 1, new_code_cell(_PLAY.format(name=name)))
    for i, cell in enumerate(found):
        cell.id = f"{name}-{i}"  # the same whenever it is written
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return new_notebook(cells=found, metadata=spec)


def write(folder: Path) -> None:
    """Write all notebooks into a folder."""
    import nbformat

    folder.mkdir(parents=True, exist_ok=True)
    for name in NOTEBOOKS:
        nbformat.write(notebook(name, folder), folder / f"{name}.ipynb")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "notebooks"))
