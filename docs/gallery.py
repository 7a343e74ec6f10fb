"""Draws pictures and films into docs/pictures: of the built-in mechanisms, and those of the examples. `make gallery` calls it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from PIL import Image

from catena.examples import EXAMPLES

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"


def main() -> None:
    for name, make in EXAMPLES.items():
        make().draw(PICTURES / "models" / f"{name}.png", size=(480, 360))
    for script in sorted((DOCS.parent / "examples").glob("*.py")):
        text = script.read_text(encoding="utf-8")
        if re.search(r"sys\.argv\[1\]", text):  # it takes the path of a picture
            print(script.name, flush=True)
            picture = PICTURES / f"{script.stem}.png"
            films = [str(picture.with_suffix(".gif"))] if re.search(r"sys\.argv\[2\]", text) else []
            subprocess.run([sys.executable, str(script), str(picture), *films], check=True, stdout=subprocess.DEVNULL)
            shrink(picture)


def shrink(picture: Path) -> None:
    """Write a picture again with 64 colours, which is enough for lines and makes a small file."""
    Image.open(picture).convert("RGB").quantize(64).save(picture, optimize=True)


if __name__ == "__main__":
    main()
