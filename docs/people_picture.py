"""Draws docs/people.svg: what averaging the visits of a person gives away, without a unit and with.

python docs/people_picture.py

Registers a table of 20,000 persons with ten visits each in a temporary vault, once as if its rows
were independent and once with its unit, releases a copy of each at privacy 0.5, and measures what
the best linear estimate of a person's height from the mean of some visits leaves hidden.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from cornerwave import Vault
from cornerwave.documents import Canvas
from cornerwave.vault import Dataset

PERSONS, VISITS, PRIVACY = 20_000, 10, 0.5
LEFT, TOP, WIDTH, HEIGHT, HIGHEST = 70, 60, 520, 250, 0.6
TITLE = "Share of a person’s height hidden at privacy 0.5, given their visits"
STYLE = """
text { font: 16px Helvetica, Arial, sans-serif; fill: #222; }
.back { fill: #fff; } .grid { stroke: #ddd; } .middle { text-anchor: middle; }
.end { text-anchor: end; } polyline { fill: none; stroke-width: 2.5; }
polyline.ours { stroke: #0072b2; } polyline.rows { stroke: #d55e00; }
.ours { fill: #0072b2; } .rows { fill: #d55e00; }
polyline.ours, polyline.rows { fill: none; }
"""


def visits() -> pa.Table:
    """Return ten visits of each person: height is the same in all of them, weight nearly."""
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(PERSONS), VISITS)
    height = rng.normal(170, 10, PERSONS)[person]
    level = rng.normal(75, 12, PERSONS)[person]
    weight = level + 0.5 * (height - 170) + rng.normal(0, 4, len(person))
    return pa.table({"person": person, "height": height, "weight": weight})


def hidden(table: pa.Table, dataset: Dataset) -> list[float]:
    """Return the share of height that is hidden from the mean of 1, 2, ... visits of a person."""
    copy = dataset.release(to="partner", privacy=PRIVACY).to_arrow()
    truth = table["height"].to_numpy().reshape(PERSONS, VISITS)[:, 0]
    shares = []
    for k in range(1, VISITS + 1):
        seen = [
            np.asarray(copy[name], dtype=float).reshape(PERSONS, VISITS)[:, :k].mean(axis=1)
            for name in ("height", "weight")
        ]
        A = np.column_stack([np.ones(PERSONS), *seen])
        left = truth - A @ np.linalg.lstsq(A, truth, rcond=None)[0]
        shares.append(float(left.var() / truth.var()))
    return shares


def point(visits: int, share: float) -> tuple[float, float]:
    x = LEFT + WIDTH * (visits - 1) / (VISITS - 1)
    return x, TOP + HEIGHT * (1 - share / HIGHEST)


def draw(curves: dict[str, list[float]]) -> str:
    canvas = Canvas(TOP + HEIGHT + 70, TITLE, width=LEFT + WIDTH + 40)
    canvas.bar(0, 0, LEFT + WIDTH + 40, TOP + HEIGHT + 70, "back")
    canvas.text(LEFT, 28, TITLE)
    for share in (0.0, 0.2, 0.4, 0.6):
        x, y = point(1, share)
        canvas.line(x, y, x + WIDTH, y, "grid")
        canvas.text(x - 10, y + 5, f"{share:.1f}", "end")
    for count in range(1, VISITS + 1):
        canvas.text(point(count, 0)[0], TOP + HEIGHT + 24, str(count), "middle")
    canvas.text(LEFT + WIDTH / 2, TOP + HEIGHT + 50, "visits that are averaged", "middle")
    for kind, shares in curves.items():
        points = [point(count, share) for count, share in enumerate(shares, 1)]
        canvas.curve(points, kind)
        for x, y in points:
            canvas.dot(x, y, 4.5, kind)
    canvas.text(LEFT + WIDTH, point(1, 0.53)[1], "with --unit person", "ours end")
    canvas.text(LEFT + WIDTH, point(1, 0.2)[1] - 8, "with --independent-rows", "rows end")
    return canvas.file(STYLE)


def main() -> None:
    table = visits()
    with tempfile.TemporaryDirectory() as folder:
        rows, unit = (Vault.create(Path(folder) / name) for name in ("rows", "unit"))
        as_rows = rows.register(
            "clinic", table, drop=["person"], independent_rows=True, keep_order=True
        )
        as_persons = unit.register("clinic", table, unit="person", keep_order=True)
        curves = {"rows": hidden(table, as_rows), "ours": hidden(table, as_persons)}
    for kind, shares in curves.items():
        print(kind, " ".join(f"{share:.3f}" for share in shares))
    Path(__file__).with_name("people.svg").write_text(draw(curves), encoding="utf-8")


if __name__ == "__main__":
    main()
