"""One HTML page with everything on it: figures inlined, nothing loaded from elsewhere."""

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from cornerwave.experiments._fig1 import PAPER
from cornerwave.experiments._part import Columns, Result, Setting, Statement, Verdict

MARKS = {Verdict.HOLDS: "✓", Verdict.REMARK: "✓*", Verdict.FAILS: "✗"}
CLASSES = {Verdict.HOLDS: "holds", Verdict.REMARK: "remark-verdict", Verdict.FAILS: "fails"}
PLURALS = {
    Verdict.HOLDS: "hold",
    Verdict.REMARK: "hold with a remark",
    Verdict.FAILS: "do not hold",
}

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, Helvetica, Arial, sans-serif; color: #222; background: #fff;
  max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin-bottom: .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; padding-top: .8rem; border-top: 1px solid #ccc; }
p { max-width: 46rem; }
figure { margin: 1.2rem 0; } figure img { width: 100%; height: auto; }
figcaption { font-size: .9rem; color: #444; max-width: 46rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem;
  border-bottom: 1px solid #ddd; }
th { font-weight: 600; border-bottom: 2px solid #888; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
th.number { text-align: right; }
.source, .remark { color: #555; font-size: .88em; } .verdict { width: 10.6rem; }
.holds { color: #00604a; } .remark-verdict { color: #8a5a00; }
.fails { color: #a33b00; font-weight: 600; }
.wide { overflow-x: auto; margin-bottom: 1.6rem; }
.statements { table-layout: fixed; overflow-wrap: anywhere; }
.statements th:first-child { width: 38%; }
 nav a { margin-right: .9rem; } a { color: #005a8c; }
@media print { h2 { break-after: avoid; } figure, tr { break-inside: avoid; }
  nav { display: none; } }
"""


@dataclass(frozen=True)
class Picture:
    """A figure as it was written: an SVG."""

    name: str
    caption: str
    svg: bytes


def page(
    results: Mapping[str, Result], pictures: Mapping[str, Sequence[Picture]], setting: Setting
) -> str:
    """Return the whole page."""
    sections = "\n".join(_section(name, r, pictures[name]) for name, r in results.items())
    links = " ".join(f'<a href="#{n}">{escape(r.title)}</a>' for n, r in results.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>The paper, reproduced</h1>
<p>{_lead(setting)}</p>
<p>{_count(results)}</p>
<nav>{links}</nav>
</header>
<main>
{sections}
</main>
</body>
</html>
"""


def _lead(setting: Setting) -> str:
    table = setting.table
    return (
        "What Y. Li, M. Chen, Q. Li and W. Zhang state in <cite>Enabling Multi-level Trust in "
        "Privacy Preserving Data Mining</cite> (IEEE TKDE, 2011), in our words, and what "
        f"Cornerwave measured: seed {setting.seed}, table <em>{escape(table.name)}</em> with "
        f"{len(table.rows):,} rows of {escape(', '.join(table.columns))}."
    )


def _count(results: Mapping[str, Result]) -> str:
    counts = Counter(s.verdict for result in results.values() for s in result.statements)
    total = sum(counts.values())
    shown = ", ".join(
        f'<span class="{CLASSES[verdict]}">{counts[verdict]} {PLURALS[verdict]}</span>'
        for verdict in Verdict
    )
    return f"Of {total} statements, {shown}."


def _section(name: str, result: Result, pictures: Sequence[Picture]) -> str:
    figures = "\n".join(_figure(picture) for picture in pictures)
    extra = _statistics(result.numbers["table2"]) if name == "table2" else ""
    text = f"<p>{escape(result.text)}</p>" if result.text else ""
    return (
        f'<section id="{name}">\n<h2>{escape(result.title)}</h2>\n{text}\n{extra}\n{figures}\n'
        f"{_statements(result.statements)}\n{_files(result)}\n</section>"
    )


def _figure(picture: Picture) -> str:
    source = f"data:image/svg+xml;base64,{b64encode(picture.svg).decode()}"
    caption = escape(picture.caption)
    return (
        f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    )


def _statements(statements: Sequence[Statement]) -> str:
    if not statements:
        return ""
    rows = "\n".join(_statement(statement) for statement in statements)
    head = '<tr><th>Statement</th><th>Measured</th><th class="verdict">Verdict</th></tr>'
    return f'<table class="statements"><thead>{head}</thead><tbody>\n{rows}\n</tbody></table>'


def _statement(statement: Statement) -> str:
    remark = f'<div class="remark">{escape(statement.remark)}</div>' if statement.remark else ""
    mark = f"{MARKS[statement.verdict]} {statement.verdict.value}"
    return (
        f'<tr><td>{escape(statement.claim)}<div class="source">{escape(statement.source)}</div>'
        f"</td><td>{escape(statement.measured)}{remark}</td>"
        f'<td class="verdict {CLASSES[statement.verdict]}">{mark}</td></tr>'
    )


def _statistics(numbers: Columns) -> str:
    """Return the table of statistics, with the paper's beside ours where it has one."""
    head = "<th>column</th><th>unit</th>" + "".join(
        f'<th class="number">{name}</th>'
        for name in ("mean", "paper's", "variance", "paper's", "skew", "zero")
    )
    rows = "".join(_statistics_row(*row) for row in zip(*numbers.values(), strict=True))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _statistics_row(
    name: str, unit: str, mean: float, variance: float, skew: float, zeros: float
) -> str:
    theirs = PAPER.get(name)
    cells = (
        f"{mean:,.2f}",
        f"{theirs[1]:,.2f} ({theirs[0]})" if theirs else "",
        f"{variance:,.2f}",
        f"{theirs[2]:,.2f}" if theirs else "",
        f"{skew:.2f}",
        f"{zeros:.0%}",
    )
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return f"<tr><td>{escape(name)}</td><td>{escape(unit)}</td>{numbers}</tr>"


def _files(result: Result) -> str:
    names = [f"{d.name}.{kind}" for d in result.drawings for kind in ("png", "svg")]
    names += [f"{name}.csv" for name in result.numbers]
    return f'<p class="source">Files: {escape(", ".join(names))}</p>' if names else ""
