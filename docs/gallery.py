"""Draws the pictures of the gallery into docs/pictures: the built-in mechanisms, and what the examples draw. `make gallery` calls it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from catena.examples import EXAMPLES

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"


def main() -> None:
    for name, make in EXAMPLES.items():
        make().draw(PICTURES / "models" / f"{name}.png", size=(480, 360))
    for script in sorted((DOCS.parent / "examples").glob("*.py")):
        if re.search(r"sys\.argv\[1\]", script.read_text(encoding="utf-8")):  # it takes the path of a picture
            print(script.name, flush=True)
            subprocess.run([sys.executable, str(script), str(PICTURES / f"{script.stem}.png")], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
