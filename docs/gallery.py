"""Draws the pictures of the gallery into docs/pictures: runs the examples that draw. `make gallery` calls it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"


def main() -> None:
    for script in sorted((DOCS.parent / "examples").glob("*.py")):
        if re.search(r"sys\.argv\[1\]", script.read_text(encoding="utf-8")):  # it takes the path of a picture
            print(script.name, flush=True)
            subprocess.run([sys.executable, str(script), str(PICTURES / f"{script.stem}.png")], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
