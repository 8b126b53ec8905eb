"""The curves of a replay as a picture: SVG, which any browser shows and any size suits.

Written here: two axes and some lines need no plotting library, and none that is light brings more.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH: Final = 900
HEIGHT: Final = 480
LEFT, TOP, RIGHT, BOTTOM = 64, 48, 200, 56
COLOURS: Final = ("#0b6fb8", "#c8470c", "#2a8a3e", "#8a3fb0", "#8a6d00", "#4d4d4d")
_TICKS: Final = 5
_MAX_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line: points in percent, and whether it is a minor one, drawn dashed."""

    name: str
    points: tuple[tuple[float, float], ...]
    is_dashed: bool = False


def picture(curves: Sequence[Curve], *, title: str, x_label: str, y_label: str) -> str:
    """The picture as SVG; curves of one name share a colour."""
    x_most = max((x for curve in curves for x, _ in curve.points), default=100.0) or 100.0
    names = list(dict.fromkeys(curve.name for curve in curves))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    body = [
        *_axes(x_most, x_label, y_label),
        *(_line(curve, colours[curve.name], x_most) for curve in curves),
        *_legend(colours),
        f'<text x="{LEFT}" y="{TOP - 20}" font-size="16">{escape(title)}</text>',
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="#222">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _x(percent: float, most: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * percent / most, 1)


def _y(percent: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * percent / _MAX_PERCENT, 1)


def _axes(x_most: float, x_label: str, y_label: str) -> Iterable[str]:
    for tick in range(_TICKS + 1):
        y = _y(tick * _MAX_PERCENT / _TICKS)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        label = f"{tick * _MAX_PERCENT // _TICKS}"
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{label}</text>'
        x = _x(x_most * tick / _TICKS, x_most)
        label = f"{x_most * tick / _TICKS:.0f}"
        yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield (f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>')
    yield (
        f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>'
    )


def _line(curve: Curve, colour: str, x_most: float) -> str:
    points = " ".join(f"{_x(x, x_most)},{_y(y)}" for x, y in curve.points)
    dashes = ' stroke-dasharray="4 4"' if curve.is_dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def _legend(colours: dict[str, str]) -> Iterable[str]:
    for number, (name, colour) in enumerate(colours.items()):
        x, y = WIDTH - RIGHT + 16, TOP + 20 * number
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="{y}">{escape(name)}</text>'
    y = TOP + 20 * len(colours)
    yield f'<text x="{WIDTH - RIGHT + 16}" y="{y}" fill="#666">dashed: wasted</text>'
