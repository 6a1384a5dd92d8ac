"""Draws docs/collusion.svg: what stays hidden as recipients join a coalition.

python docs/picture.py
"""

from pathlib import Path

from cornerwave.documents import Canvas
from cornerwave.levels import Level
from cornerwave.privacy import Coalition

PRIVACY = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9]
LEFT, TOP, WIDTH, HEIGHT, HIGHEST = 70, 60, 520, 250, 0.6
TITLE = "Share of variance hidden from recipients who pool their copies"
STYLE = """
text { font: 16px Helvetica, Arial, sans-serif; fill: #222; }
.back { fill: #fff; } .grid { stroke: #ddd; } .middle { text-anchor: middle; }
.end { text-anchor: end; } polyline { fill: none; stroke-width: 2.5; }
polyline.ours { stroke: #0072b2; } polyline.independent { stroke: #d55e00; }
.ours { fill: #0072b2; } .independent { fill: #d55e00; }
polyline.ours, polyline.independent { fill: none; }
"""


def point(members: int, hidden: float) -> tuple[float, float]:
    x = LEFT + WIDTH * (members - 1) / (len(PRIVACY) - 1)
    return x, TOP + HEIGHT * (1 - hidden / HIGHEST)


def draw() -> str:
    canvas = Canvas(TOP + HEIGHT + 70, TITLE, width=LEFT + WIDTH + 40)
    canvas.bar(0, 0, LEFT + WIDTH + 40, TOP + HEIGHT + 70, "back")
    canvas.text(LEFT, 28, TITLE)
    for hidden in (0.0, 0.2, 0.4, 0.6):
        x, y = point(1, hidden)
        canvas.line(x, y, x + WIDTH, y, "grid")
        canvas.text(x - 10, y + 5, f"{hidden:.1f}", "end")
    sizes = range(1, len(PRIVACY) + 1)
    for members in sizes:
        canvas.text(point(members, 0)[0], TOP + HEIGHT + 24, str(members), "middle")
    canvas.text(LEFT + WIDTH / 2, TOP + HEIGHT + 50, "recipients in the coalition", "middle")
    held = [(str(p), Level.of(privacy=p)) for p in PRIVACY]
    coalitions = [Coalition.of(held[:members]) for members in sizes]
    curves = {
        "independent": [each.independent_privacy for each in coalitions],
        "ours": [each.joint_privacy for each in coalitions],
    }
    for kind, shares in curves.items():
        points = [point(members, share) for members, share in zip(sizes, shares, strict=True)]
        canvas.curve(points, kind)
        for x, y in points:
            canvas.dot(x, y, 4.5, kind)
    canvas.text(LEFT + WIDTH, TOP + 28, "Cornerwave", "ours end")
    canvas.text(LEFT + WIDTH, TOP + 158, "independent noise", "independent end")
    return canvas.file(STYLE)


if __name__ == "__main__":
    Path(__file__).with_name("collusion.svg").write_text(draw(), encoding="utf-8")
