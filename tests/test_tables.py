"""What is shown of models, mobilities, kernels and runs: one line, tables, and pictures in notebooks."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import catena as ct
from catena.examples import EXAMPLES
from catena.tables import ROWS, Table

pytestmark = pytest.mark.quick


class Cells(HTMLParser):
    """The rows of all tables of a page; every element that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in ("img", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_text_and_page_of_a_table_have_the_same_cells():
    rows = [("<b> & co", "1"), ("two", "22")]
    table = Table("Things", ("name", ">count"), rows)
    assert table.text().splitlines() == ["Things", "name      count", "<b> & co      1", "two          22"]
    assert Cells(table.html()).rows == [["name", "count"], *map(list, rows)]
    many = Table("", ("n",), [(str(i),) for i in range(ROWS + 3)])
    assert many.text().splitlines()[-1] == "and 3 more"
    assert len(Cells(many.html()).rows) == ROWS + 1


@pytest.mark.parametrize("name", ["double-pendulum", "four-bar", "quarter-car"])
def test_a_model_shows_its_bodies_and_a_picture(name):
    image = pytest.importorskip("PIL.Image")
    m = EXAMPLES[name]()
    page = m._repr_html_()
    assert sorted(row[0].lstrip("│├└─ \xa0") for row in Cells(page).rows[2:]) == sorted(m.body_names)
    (data,) = re.findall(r"data:image/png;base64,([^\"]+)", page)
    picture = np.asarray(image.open(io.BytesIO(base64.b64decode(data))).convert("L"), dtype=float)
    assert picture.shape == (240, 320)
    assert picture.std() > 1.0


def test_a_model_without_a_picture_says_why():
    m = EXAMPLES["four-bar"]()
    m.close("far", ct.Distance(100.0), "crank", "ground")
    page = m._repr_html_()
    assert "no picture: " in page
    assert "img" not in page
    loose = ct.Model("loose")
    assert Cells(loose._repr_html_()).rows == [["body", "joint", "axis", "q", "v"], ["ground", "", "", "", ""]]


def test_mobility_is_a_line_and_a_table():
    found = EXAMPLES["four-bar"]().mobility()
    assert repr(found) == "<Mobility: 1 degree of freedom; 3 coordinates, 5 constraints, 3 of them redundant>"
    cells = dict(row[:2] for row in Cells(found._repr_html_()).rows if len(row) == 2)
    assert cells["dependent"] == ", ".join(found.dependent)
    for text in (*cells.values(), "coupler, crank, rocker"):
        assert text in str(found)
    alone = EXAMPLES["pendulum"]().mobility()
    assert str(alone).splitlines() == ["degrees of freedom  1", "coordinates         1", "independent         arm"]


def test_kernels_and_runs_show_what_they_are():
    m = EXAMPLES["four-bar"]()
    forward = ct.forward_dynamics(m)
    cells = dict(Cells(forward._repr_html_()).rows)
    assert cells["method"] == forward.method
    assert cells["plan"] == forward.plan.replace("\n", "")
    assert cells["outputs"] == "(vdot: 3)"
    assert cells["operations"].startswith(f"{sum(forward.operations.values()):,}: ")
    run = ct.simulate(m, m.assemble(crank=1.0), until=0.2)
    rows = {row[0]: row[1:] for row in Cells(run._repr_html_()).rows}
    assert rows["crank [rad]"] == [f"{x:.6g}" for x in (run["crank"][0], run["crank"][-1], run["crank"].min(), run["crank"].max())]
