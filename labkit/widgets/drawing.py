"""Shapes of a still picture: what all views draw with, and the colours that they share.

A picture brings its own light background, so it reads on a dark page too; the same state always
gives the same text.
"""

from base64 import b64encode
from html import escape

INK, FAINT, LINE, BOX = "#1f2328", "#57606a", "#d0d7de", "#f3f4f6"
STORED, LOST, CONFIRMED = "#0072b2", "#b84e00", "#aa4499"

_FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"


def bundle(words: str, svg: str) -> dict[str, str]:
    """A still picture as notebooks keep it: as an image it passes every viewer."""
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    html = f'<img alt="{escape(words, quote=True)}" src="{address}">'
    return {"text/plain": words, "text/html": html, "image/svg+xml": svg}


class Drawing:
    """An SVG document that is being drawn."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def begin(self, width: float, height: float, words: str, definitions: str = "") -> None:
        """The frame; `words` tell the picture to those who do not see it."""
        self.add(
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:g}' height='{height:g}'"
            f" viewBox='0 0 {width:g} {height:g}' role='img' {_FONT} font-size='12' fill='{INK}'>"
            f"<title>{escape(words)}</title>{definitions}"
            f"<rect x='.5' y='.5' width='{width - 1:g}' height='{height - 1:g}' rx='8' fill='#fff'"
            f" stroke='{LINE}'/>"
        )

    def end(self) -> str:
        """The document."""
        return "\n".join([*self.parts, "</svg>"])

    def add(self, part: str) -> None:
        """Any element, as text."""
        self.parts.append(part)

    def rect(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """A rectangle; `style` holds its other attributes."""
        self.add(f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' {style}/>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        fill: str = INK,
        size: float = 12,
        bold: bool = False,
        middle: bool = False,
        anchor: str = "start",
        family: str = "",
    ) -> None:
        """A line of text whose baseline is at `y`."""
        style = f" text-anchor='{'middle' if middle else anchor}' font-size='{size:g}'"
        style += " font-weight='bold'" if bold else ""
        style += f" font-family='{family}'" if family else ""
        self.add(f"<text x='{x:g}' y='{y:g}' fill='{fill}'{style}>{escape(text)}</text>")
