"""Draws pictures and films into docs/pictures: of built-in mechanisms, theory, examples and tutorials. `make gallery` calls it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import figures
from notebooks import TUTORIALS, cells
from PIL import Image

from catena.examples import EXAMPLES

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"


def main() -> None:
    for name, make in EXAMPLES.items():
        picture = PICTURES / "models" / f"{name}.png"
        make().draw(picture, size=(480, 360))
        shrink(picture)
    for picture in figures.draw(PICTURES):
        shrink(picture)
    for script in sorted((DOCS.parent / "examples").glob("*.py")):
        text = script.read_text(encoding="utf-8")
        if re.search(r"sys\.argv\[1\]", text):  # it takes the path of a picture
            print(script.name, flush=True)
            picture = PICTURES / f"{script.stem}.png"
            films = [str(picture.with_suffix(".gif"))] if re.search(r"sys\.argv\[2\]", text) else []
            subprocess.run([sys.executable, str(script), str(picture), *films], check=True, stdout=subprocess.DEVNULL)
            shrink(picture)
    for page in sorted(TUTORIALS.glob("*.md")):
        print(page.name, flush=True)
        draw(page)


def draw(page: Path) -> None:
    """Run the code of a page in a folder of its own, and take the pictures and films that the page shows."""
    parts = list(cells(page.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as folder:
        code = "\n".join(text for kind, text in parts if kind == "code")
        subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        for file in (file for kind, text in parts if kind == "pictures" for file in text.split("\n")):
            shutil.copy(Path(folder, file), PICTURES / file)
            if file.endswith(".png"):
                shrink(PICTURES / file)


def shrink(picture: Path) -> None:
    """Write a picture again with 64 colours, which is enough for lines and makes a small file."""
    Image.open(picture).convert("RGB").quantize(64).save(picture, optimize=True)


if __name__ == "__main__":
    main()
