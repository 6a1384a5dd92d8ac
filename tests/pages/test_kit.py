"""The page kit and the SVG kit: escaping, alignment, labels that fit, and no inline styles."""

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cornerwave.audit import audit
from cornerwave.pages import Canvas, audit_page
from cornerwave.pages import _document as kit
from cornerwave.pages._charts import Panel, ShareRow, bars, histograms, share_chart
from cornerwave.pages._document import style_sheet
from cornerwave.pages._reproduction_page import Picture, reproduction_page
from cornerwave.pages._tallies import Axis
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
    rows = [("a name that is long enough to wrap", "1,000.5 ± 0.2", "no gain"), ("b", "–", "gains")]
    page = kit.table(("name", "mean", "verdict"), rows, faults=["gains"])
    assert '<th class="number">mean</th><th>verdict</th>' in page
    assert '<td class="number">–</td><td class="bad">gains</td>' in page
    assert '<td class="long">a name' in page


def test_names_that_do_not_fit_are_shortened_and_told_in_full() -> None:
    name = "University of Applied Sciences and Arts"
    chart = share_chart([ShareRow(name, words="no gain")], "one")
    assert f"<title>{name}</title>" in chart
    assert re.search(r"University[\w ]*…[\w ]*and Arts<", chart)


def test_dots_that_overlap_share_a_number() -> None:
    row = ShareRow("age", dots=[(0.5, "one"), (0.2, "two"), (0.501, "three")])
    chart = share_chart([row], "one")
    above = re.findall(r'middle" x="[^"]*" y="([^"]*)">([^<]*)</text>', chart)
    assert [text for y, text in above if y != above[0][0]] == ["2", "1, 3"]


@pytest.mark.parametrize("panels", [1, 2, 5, 6, 13])
def test_small_multiples_stay_on_the_drawing(panels: int) -> None:
    shares = np.array([0.5, 0.3, 0.2])
    made = [Panel(f"privacy {i}", shares, is_original=i == 0) for i in range(panels)]
    for chart in (
        histograms(made, Axis(0.0, 1.0, 3), None, "x"),
        bars(made, ["a", "b", "c"], "x"),
    ):
        height = float(re.search(r'viewBox="0 0 960 ([\d.]+)"', chart)[1])
        xs = [float(x) for x in re.findall(r' x="([\d.-]+)"', chart)]
        ys = [float(y) for y in re.findall(r' y="([\d.-]+)"', chart)]
        assert min(xs) >= 0
        assert max(xs) <= 960
        assert min(ys) >= 0
        assert max(ys) <= height


def test_the_picture_of_the_docs_is_the_one_that_its_script_draws() -> None:
    drawn = runpy.run_path(str(DOCS / "picture.py"))["draw"]()
    assert drawn == (DOCS / "collusion.svg").read_text(encoding="utf-8")
