"""A bar chart as SVG, without any library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

ROW, LABEL, WIDTH = 24, 320, 420


def bar_chart(title: str, bars: Sequence[tuple[str, float]]) -> str:
    """One bar per (label, value), a line where the value is 1."""
    top = max([1.0, *(value for _, value in bars)])
    scale = WIDTH / top
    height = ROW * (len(bars) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + 80}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (label, value) in enumerate(bars):
        y = ROW * (number + 1) + 6
        colour = "#2a7" if value <= 1 else "#c63"
        parts += [
            f'<text x="8" y="{y + 14}">{escape(label)}</text>',
            f'<rect x="{LABEL}" y="{y}" width="{value * scale:.1f}" height="18" fill="{colour}"/>',
            f'<text x="{LABEL + value * scale + 6:.1f}" y="{y + 14}">{value:.3f}</text>',
        ]
    x = LABEL + scale
    parts.append(f'<line x1="{x:.1f}" y1="{ROW}" x2="{x:.1f}" y2="{height}" stroke="#333"/>')
    return "\n".join([*parts, "</svg>", ""])
