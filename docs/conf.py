"""The settings of the documentation site; `make docs` builds it into site/, and tests/test_docs.py in a temporary folder."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

import docstrings  # noqa: E402
import pages  # noqa: E402

project = "catena"
author = copyright = "The catena developers"
html_title = "catena"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx_copybutton"]

# pages are Markdown as it reads in the repository too: formulas are between dollars, or in blocks of the language `math`
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False  # "auto" is a value

# MathJax is a file of the site, with its glyphs; site.js has its settings
_MATHJAX = importlib.metadata.distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg.js")
html_static_path = ["site.css", "site.js", str(_MATHJAX)]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"priority": 100})]
mathjax_path = "tex-svg.js"

html_theme = "furo"
_COLOURED = ("color-brand-primary", "color-brand-content", "color-brand-visited", "color-api-name", "color-api-pre-name")
html_theme_options = {
    "light_css_variables": dict.fromkeys(_COLOURED, "#303f9f"),
    "dark_css_variables": dict.fromkeys(_COLOURED, "#9fa8da"),
    "top_of_page_buttons": [],
}
html_copy_source = False
html_show_sphinx = False
html_domain_indices = False
html_use_index = False

autodoc_default_options = {"members": True, "member-order": "bysource", "no-value": True}
autodoc_typehints = "none"
add_module_names = False
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"  # not what code prints


def setup(app: Sphinx) -> None:
    docstrings.setup(app)
    pages.setup(app)
