"""The page kit and the SVG kit: escaping, alignment, labels that fit, and no inline styles."""

import json
import re
import runpy
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cornerwave_reproduction import Figure, reproduction_document

from cornerwave.audit import audit, audit_document
from cornerwave.document import (
    Bar,
    Bullets,
    Code,
    Content,
    DataTable,
    Document,
    Fold,
    Histograms,
    Image,
    Legend,
    MarkedCell,
    Meter,
    Panel,
    Paragraph,
    Part,
    Picture,
    Section,
    ShareRow,
    Shares,
    text_of,
)
from cornerwave.documents import Canvas, body, page, print_document, style_sheet
from cornerwave.levels import Level, retention
from cornerwave.miner import CopyColumn
from cornerwave.report._distributions import ShownShares, bar_table, not_redrawn, same_share
from tests.audit.releases import frame, ours, skewed

DOCS = Path(__file__).parents[2] / "docs"
NASTY = "<b onload='x'>&\"</b>"


class Parsed(HTMLParser):
    """The tags, attributes, classes and text of a page; every tag must be closed in order."""

    VOID = ("meta", "img", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.classes: set[str] = set()
        self.feed(html)
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
    return page(audit_document(audit(frame(X), copies)))


def reproduced() -> str:
    statement = SimpleNamespace(
        source=NASTY, claim=NASTY, verdict="holds with a remark", measured=NASTY, remark=NASTY
    )
    columns = ("column", "unit", "mean", "variance", "skew", "zeros")
    numbers = dict(zip(columns, [["age"], [NASTY], [1.0], [2.0], [0.0], [0.5]], strict=True))
    part = SimpleNamespace(
        title=NASTY, text=NASTY, statements=[statement], numbers={"table2": numbers}
    )
    figures = {"table2": [Figure("one", NASTY, b"<svg/>")]}
    paper = {"age": ("Age", 1.0, 2.0)}
    return page(reproduction_document({"table2": part}, figures, data=NASTY, paper=paper))


def shown(*parts: Part) -> str:
    """The HTML of some parts."""
    return body(Document("", "", sections=[Section("", parts)]))


def every_part() -> list[Part]:
    """A part of each kind, with a text that could be HTML wherever one can be."""
    cells: list[Content] = [NASTY, MarkedCell(NASTY, NASTY), Meter(0.5, False, NASTY)]
    cells.append(Bar(0.5, 1.0, NASTY, kept=0.2, mark=0.3))
    panels = [Panel(NASTY, [0.5, 0.5], is_original=True), Panel(NASTY, [0.9, 0.1])]
    return [
        Paragraph(NASTY),
        Bullets([NASTY], "FAILED"),
        Code(NASTY),
        DataTable([NASTY] * 4, [cells], NASTY),
        Picture(Shares([ShareRow(NASTY, dots=[(0.5, NASTY)], words=NASTY)], NASTY), NASTY),
        Picture(Histograms(panels, [NASTY, NASTY], NASTY)),
        Picture(Image(b"<svg/>", NASTY)),
        Legend([("dot", NASTY)]),
        Fold(NASTY, [Paragraph(NASTY)]),
    ]


@pytest.mark.parametrize("make", [audited, reproduced])
def test_pages_need_one_style_sheet_and_nothing_else(make) -> None:
    """What a Content-Security-Policy without inline styles and scripts allows."""
    made = make()
    parsed = Parsed(made)
    assert parsed.tags.count("style") == 1
    assert not {"script", "link", "iframe"} & set(parsed.tags)
    assert "style" not in parsed.attributes
    assert not [name for name in parsed.attributes if name.startswith("on")]
    assert not re.search(r'(src|href)="(?!data:|#)', made)
    styled = set(re.findall(r"\.([a-z]+)", style_sheet()))
    assert parsed.classes <= styled


def test_text_is_escaped_everywhere() -> None:
    canvas = Canvas(10, NASTY)
    canvas.text(0, 0, NASTY)
    canvas.dot(0, 0, 1, "dot", title=NASTY)
    sections = [Section(NASTY, every_part())]
    whole = Document(NASTY, NASTY, NASTY, sections=sections, footer=NASTY, contents=True)
    assert "<b" in NASTY
    for made in (page(whole), canvas.svg(), canvas.file(""), reproduced()):
        assert "<b" not in made.replace("<body", "")


def test_a_terminal_shows_every_text_in_lines_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No control character of a foreign name reaches the terminal, and nothing is markup."""
    foreign = "[red]a\x1b[2J\nb[/red]"
    parts = [
        Paragraph(foreign),
        Bullets([foreign], "FAILED"),
        DataTable(["name", "share"], [[foreign, Meter(2.0, False, "x")]], foreign),
        Fold(foreign, [Code(foreign)]),
        Picture(Shares([], ""), foreign),
    ]
    sections = [Section(foreign, parts), Section("Pages", [Paragraph("long")], page_only=True)]
    print_document(Document(foreign, foreign, "2 rows", sections=sections))
    told = capsys.readouterr().out
    spelled = r"[red]a\x1b[2J\nb[/red]"
    assert told.startswith(f"{spelled}\n{spelled}\n2 rows\n")
    assert f"\nFAILED {spelled}\n" in told
    assert "200%, failed" in told
    assert told.count(spelled) == 9
    assert "\x1b" not in told
    assert "Pages" not in told


@pytest.mark.parametrize("noise", [[0.25, 1.0], [1.0]])
def test_a_page_and_a_terminal_show_the_same_tables(
    noise: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    X = skewed(500)
    found = audit_document(audit(frame(X), [frame(Y) for Y in ours(X, noise)]))
    print_document(found)
    told, made = capsys.readouterr().out, unescape(page(found)).replace("\N{NO-BREAK SPACE}", " ")
    for section in found.sections:
        for table in [part for part in section.parts if isinstance(part, DataTable)]:
            texts = [*table.header, *(text_of(c) for row in table.rows for c in row)]
            drawn = [text_of(c) for row in table.rows for c in row if isinstance(c, Meter)]
            assert all(text in made for text in texts if text not in drawn)
            assert section.page_only or all(text in told for text in texts)
    assert json.loads(json.dumps(found.data))["verdict"] == found.verdict


def test_columns_of_numbers_align_right() -> None:
    rows = [
        ("a name that is long enough to wrap", "1,000.5 ± 0.2", "no gain", "3.1 ± 0.2 days"),
        ("b", "–", MarkedCell("gains", kind="bad"), "2020-01-01"),
    ]
    made = shown(DataTable(("name", "mean", "verdict", "seen"), rows))
    assert '<th class="number">mean</th><th>verdict</th><th class="number">seen</th>' in made
    assert '<td class="number" data-label="mean">–</td><td class="bad" data-label' in made
    assert '<td class="long" data-label="name">a name' in made


@pytest.mark.parametrize("columns", [2, 7, 40])
def test_a_wide_table_loses_no_column(columns: int) -> None:
    header = ["column", *(f"privacy {i}" for i in range(columns))]
    rows = [["wage", *(f"12,345.67{i}" for i in range(columns))]]
    tables = shown(DataTable(header, rows)).split("<table")[1:]
    parts = [re.findall("<th(?: [^>]*)?>(.*?)</th>", part) for part in tables]
    assert [part[0] for part in parts] == ["column"] * len(parts)
    assert [name for part in parts for name in part[1:]] == header[1:]
    for part in parts:
        assert len(part) * (len("12,345.678") + 3) <= 112  # characters on a sheet of paper


def test_long_names_are_written_whole() -> None:
    name = "University_of_Applied_Sciences_and_Arts"
    for part in (
        Picture(Shares([ShareRow(name, words="no gain")], "one")),
        DataTable(("value", "one"), [(name, Bar(1.0, 1.0, name))]),
    ):
        assert f">{name}</" in shown(part)


def test_dots_that_overlap_share_a_number() -> None:
    row = ShareRow("age", dots=[(0.5, "one"), (0.2, "two"), (0.501, "three")])
    chart = shown(Picture(Shares([row], "one")))
    above = re.findall(r'middle" x="[^"]*" y="([^"]*)">([^<]*)</text>', chart)
    assert [text for y, text in above if y != above[0][0]] == ["2", "1, 3"]


@pytest.mark.parametrize(
    ("panels", "in_line"), [(1, "one"), (2, "two"), (5, "five"), (6, "three"), (13, "five")]
)
def test_small_multiples_stay_on_the_drawing(panels: int, in_line: str) -> None:
    shares = np.array([0.5, 0.3, 0.2])
    made = [Panel(f"privacy {i}", shares.tolist(), is_original=i == 0) for i in range(panels)]
    drawn = shown(Picture(Histograms(made, ["0", "3"], "x")))
    assert f'class="panels {in_line}"' in drawn
    levels = [None, *(Level(float(i)) for i in range(1, panels))]
    tables = [ShownShares(f"{i}", shares, level) for i, level in enumerate(levels)]
    bars = shown(bar_table(["a", "b", "c"], tables, CopyColumn("x", is_number=False)))
    for chart in (drawn, bars):
        places = re.findall(r' (?:x|x1|x2|width)="([\d.-]+)%"', chart)
        assert len(places) >= panels
        assert all(0 <= float(place) <= 100 for place in places)


def test_bars_show_what_was_redrawn() -> None:
    """Of a category with a half, a quarter of the cells kept: the dark bar is half as long."""
    cells = [Bar(0.5, 0.5, "a", kept=0.25), Bar(0.25, 0.5, "b", kept=0.125)]
    made = shown(DataTable(("value", "privacy 0.5"), [("a", cells[0]), ("b", cells[1])]))
    widths = re.findall(r'<rect class="(\w+)" x="0%" y="2" width="([\d.]+)%', made)
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
