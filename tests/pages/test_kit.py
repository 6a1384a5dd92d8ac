"""The page kit and the SVG kit: escaping, alignment, labels that fit, and no inline styles."""

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cornerwave_reproduction._reproduction_page import Picture, reproduction_page

from cornerwave.audit import audit
from cornerwave.documents import Canvas, ShareRow, audit_page, style_sheet
from cornerwave.documents import _document as kit
from cornerwave.documents._charts import Panel, bars, histograms, share_chart
from cornerwave.documents._tallies import Axis, not_redrawn, same_share
from cornerwave.levels import retention
from cornerwave.miner import CopyColumn
from tests.audit.releases import frame, ours, skewed

DOCS = Path(__file__).parents[2] / "docs"
NASTY = "<b onload='x'>&\"</b>"


class Parsed(HTMLParser):
    """The tags, attributes, classes and text of a page; every tag must be closed in order."""

    VOID = ("meta", "img", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.classes: set[str] = set()
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.classes |= {word for name, value in attrs if name == "class" for word in value.split()}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def audited() -> str:
    X = skewed(500)
    copies = [frame(Y) for Y in (*ours(X, [0.25, 1.0]), *ours(X, [1.0], seed=2))]
    return audit_page(audit(frame(X), copies))


def reproduced() -> str:
    statement = SimpleNamespace(
        source=NASTY, claim=NASTY, verdict="holds with a remark", measured=NASTY, remark=NASTY
    )
    columns = ("column", "unit", "mean", "variance", "skew", "zeros")
    numbers = dict(zip(columns, [["age"], [NASTY], [1.0], [2.0], [0.0], [0.5]], strict=True))
    part = SimpleNamespace(
        title=NASTY, text=NASTY, statements=[statement], numbers={"table2": numbers}
    )
    pictures = {"table2": [Picture("one", NASTY, b"<svg/>")]}
    paper = {"age": ("Age", 1.0, 2.0)}
    return reproduction_page({"table2": part}, pictures, data=NASTY, paper=paper)


@pytest.mark.parametrize("make", [audited, reproduced])
def test_pages_need_one_style_sheet_and_nothing_else(make) -> None:
    """What a Content-Security-Policy without inline styles and scripts allows."""
    page = make()
    parsed = Parsed(page)
    assert parsed.tags.count("style") == 1
    assert not {"script", "link", "iframe"} & set(parsed.tags)
    assert "style" not in parsed.attributes
    assert not [name for name in parsed.attributes if name.startswith("on")]
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    styled = set(re.findall(r"\.([a-z]+)", style_sheet()))
    assert parsed.classes <= styled


def test_text_is_escaped_everywhere() -> None:
    canvas = Canvas(10, NASTY)
    canvas.text(0, 0, NASTY)
    canvas.dot(0, 0, 1, "dot", title=NASTY)
    parts = [
        kit.headline(NASTY, NASTY, NASTY),
        kit.section(NASTY, kit.hint(NASTY), anchor=NASTY),
        kit.subsection(NASTY, kit.bullets([NASTY]), kit.legend([("dot", NASTY)])),
        kit.table([NASTY], [[NASTY]], faults=[NASTY]),
        canvas.svg(),
    ]
    assert "<b" in NASTY
    for page in (kit.document(NASTY, parts, footer=NASTY), canvas.file(""), reproduced()):
        assert "<b" not in page.replace("<body", "")


def test_columns_of_numbers_align_right() -> None:
    rows = [
        ("a name that is long enough to wrap", "1,000.5 ± 0.2", "no gain", "3.1 ± 0.2 days"),
        ("b", "–", "gains", "2020-01-01"),
    ]
    page = kit.table(("name", "mean", "verdict", "seen"), rows, faults=["gains"])
    assert '<th class="number">mean</th><th>verdict</th><th class="number">seen</th>' in page
    assert '<td class="number" data-label="mean">–</td><td class="bad" data-label' in page
    assert '<td class="long" data-label="name">a name' in page


@pytest.mark.parametrize("columns", [2, 7, 40])
def test_a_wide_table_loses_no_column(columns: int) -> None:
    header = ["column", *(f"privacy {i}" for i in range(columns))]
    page = kit.table(header, [["wage", *(f"12,345.67{i}" for i in range(columns))]])
    parts = [re.findall("<th(?: [^>]*)?>(.*?)</th>", part) for part in page.split("<table")[1:]]
    assert [part[0] for part in parts] == ["column"] * len(parts)
    assert [name for part in parts for name in part[1:]] == header[1:]
    for part in parts:
        assert sum(len("12,345.678") + kit.BETWEEN for _ in part) <= kit.ROOM


def test_long_names_are_written_whole() -> None:
    name = "University_of_Applied_Sciences_and_Arts"
    panels = [Panel("one", np.array([1.0]))]
    for chart in (
        share_chart([ShareRow(name, words="no gain")], "one"),
        bars(panels, [name], "value"),
    ):
        assert f">{name}</" in chart


def test_dots_that_overlap_share_a_number() -> None:
    row = ShareRow("age", dots=[(0.5, "one"), (0.2, "two"), (0.501, "three")])
    chart = share_chart([row], "one")
    above = re.findall(r'middle" x="[^"]*" y="([^"]*)">([^<]*)</text>', chart)
    assert [text for y, text in above if y != above[0][0]] == ["2", "1, 3"]


@pytest.mark.parametrize(
    ("panels", "in_line"), [(1, "one"), (2, "two"), (5, "five"), (6, "three"), (13, "five")]
)
def test_small_multiples_stay_on_the_drawing(panels: int, in_line: str) -> None:
    shares = np.array([0.5, 0.3, 0.2])
    made = [Panel(f"privacy {i}", shares, is_original=i == 0) for i in range(panels)]
    drawn = histograms(made, Axis(0.0, 1.0, 3), None, "x")
    assert f'class="panels {in_line}"' in drawn
    for chart in (drawn, bars(made, ["a", "b", "c"], "x")):
        places = re.findall(r' (?:x|x1|x2|width)="([\d.-]+)%"', chart)
        assert len(places) >= panels
        assert all(0 <= float(place) <= 100 for place in places)


def test_bars_show_what_was_redrawn() -> None:
    """Of a category with a half, a quarter of the cells kept: the dark bar is half as long."""
    panel = Panel("privacy 0.5", np.array([0.5, 0.25]), kept=np.array([0.25, 0.125]))
    widths = re.findall(
        r'<rect class="(\w+)" x="0%" y="2" width="([\d.]+)%', bars([panel], "ab", "")
    )
    assert widths == [("redrawn", "100"), ("copy", "50"), ("redrawn", "50"), ("copy", "25")]


@pytest.mark.parametrize("base", ["marginal", "uniform"])
def test_cells_that_hold_their_own_value_are_counted(base: str) -> None:
    """Against a direct simulation of the refresh, within five standard errors."""
    rng, rows, noise = np.random.default_rng(3), 200_000, 3.0
    truth = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    drawn = rng.choice(3, rows, p=[0.6, 0.3, 0.1] if base == "marginal" else [1 / 3] * 3)
    kept = rng.random(rows) < retention(noise)
    copy = np.where(kept, truth, drawn)
    column = CopyColumn("c", is_number=False, base=base, categories=3)
    shares = np.bincount(copy, minlength=3) / rows
    margin = 5 * 0.5 / np.sqrt(rows) / retention(noise)
    assert abs(same_share(shares, column, noise) - (copy == truth).mean()) < margin
    own = np.bincount(copy[kept], minlength=3) / rows
    assert np.abs(not_redrawn(shares, column, noise) - own).max() < margin
    # with the other base it is another share
    other = CopyColumn("c", False, base={"marginal": "uniform"}.get(base, "marginal"), categories=3)
    assert np.abs(not_redrawn(shares, other, noise) - own).max() > margin


def test_the_picture_of_the_docs_is_the_one_that_its_script_draws() -> None:
    drawn = runpy.run_path(str(DOCS / "picture.py"))["draw"]()
    assert drawn == (DOCS / "collusion.svg").read_text(encoding="utf-8")
