"""Draws docs/collusion.svg: what stays hidden as recipients join a coalition.

python docs/picture.py
"""

from pathlib import Path

PRIVACY = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9]
LEFT, TOP, WIDTH, HEIGHT = 70, 60, 520, 250
BLUE, ORANGE, INK, FAINT = "#0072b2", "#d55e00", "#222", "#ddd"


def ours(members: int) -> float:
    return PRIVACY[0] if members else 1.0


def independent(members: int) -> float:
    return 1 / (1 + sum((1 - p) / p for p in PRIVACY[:members]))


def point(members: int, hidden: float) -> str:
    x = LEFT + WIDTH * (members - 1) / (len(PRIVACY) - 1)
    return f"{x:.1f},{TOP + HEIGHT * (1 - hidden / 0.6):.1f}"


def curve(share, colour: str) -> str:
    points = [point(members, share(members)) for members in range(1, len(PRIVACY) + 1)]
    dots = "".join(
        '<circle cx="{}" cy="{}" r="4.5" fill="{}"/>'.format(*p.split(","), colour) for p in points
    )
    line = (
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    )
    return line + dots


def text(x: float, y: float, words: str, *, colour: str = INK, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{words}</text>'


def draw() -> str:
    parts = [text(LEFT, 28, "Share of variance hidden from recipients who pool their copies")]
    for tick in (0.0, 0.2, 0.4, 0.6):
        y = TOP + HEIGHT * (1 - tick / 0.6)
        parts.append(f'<path d="M{LEFT} {y:.1f}h{WIDTH}" stroke="{FAINT}"/>')
        parts.append(text(LEFT - 10, y + 5, f"{tick:.1f}", anchor="end"))
    for members in range(1, len(PRIVACY) + 1):
        x = float(point(members, 0).split(",")[0])
        parts.append(text(x, TOP + HEIGHT + 24, str(members), anchor="middle"))
    parts.append(
        text(LEFT + WIDTH / 2, TOP + HEIGHT + 50, "recipients in the coalition", anchor="middle")
    )
    parts += [curve(independent, ORANGE), curve(ours, BLUE)]
    parts.append(text(LEFT + WIDTH, TOP + 28, "Cornerwave", colour=BLUE, anchor="end"))
    parts.append(text(LEFT + WIDTH, TOP + 158, "independent noise", colour=ORANGE, anchor="end"))
    style = "font-family:Helvetica,Arial,sans-serif;font-size:16px"
    width, height = LEFT + WIDTH + 40, TOP + HEIGHT + 70
    box = f'viewBox="0 0 {width} {height}" style="{style}"'
    title = "<title>Share of variance hidden from a growing coalition</title>"
    back = '<rect width="100%" height="100%" fill="#fff"/>'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{title}{back}\n{body}\n</svg>\n'


if __name__ == "__main__":
    Path(__file__).with_name("collusion.svg").write_text(draw(), encoding="utf-8")
