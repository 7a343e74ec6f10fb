"""Write the tables of the documentation from benchmarks/results.json, and measure nothing.

    python benchmarks/pages.py [--check]

A table stands on a page between two comments, `<!-- table: NAME -->` and `<!-- end -->`, and is replaced as a whole; the prose around it
stays. benchmarks/tables.py has a function for each name. With `--check` no page is written, and the exit code is 1 where one differs.
"""

from __future__ import annotations

import argparse
import re
import sys

import results
from PIL import Image
from tables import TABLES, Results

#: The pages that have tables.
PAGES = ("README.md", "docs/benchmarks.md", "docs/canonical-momenta.md", "docs/contact.md")

#: Pictures that benchmarks draw; they are written again with 64 colours, which is enough for lines and makes small files.
PICTURES = ("ladder.png", "methods.png", "symplectic.png")

_MARKED = re.compile(r"^<!-- table: (\S+) -->\n.*?^<!-- end -->$", re.M | re.S)


def written(text: str, of: Results) -> str:
    """Return a page with the tables of some results."""

    def one(match: re.Match[str]) -> str:
        if match[1] not in TABLES:
            raise SystemExit(f"there is no table {match[1]}; choose from {', '.join(TABLES)}")
        return "\n".join([f"<!-- table: {match[1]} -->", "", *TABLES[match[1]](of), "", "<!-- end -->"])

    return _MARKED.sub(one, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 where a page differs")
    options = parser.parse_args()
    of, differ = Results(results.read(results.RESULTS)), []
    for page in PAGES:
        before = (results.ROOT / page).read_text(encoding="utf-8")
        now = written(before, of)
        if now != before:
            differ.append(page)
            if not options.check:
                (results.ROOT / page).write_text(now, encoding="utf-8")
    for name in () if options.check else PICTURES:
        picture = results.ROOT / "docs" / "pictures" / name
        with Image.open(picture) as image:
            small = image.convert("RGB").quantize(64) if image.mode != "P" else None
        if small:  # it is a new one
            small.save(picture, optimize=True)
    print(f"{'differ' if options.check else 'written'}: {', '.join(differ) or 'none'}")
    sys.exit(1 if options.check and differ else 0)


if __name__ == "__main__":
    main()
