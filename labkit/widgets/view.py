"""What every view has in common: the moving picture in JupyterLab and the still one elsewhere."""

from abc import ABC, abstractmethod
from base64 import b64encode
from html import escape
from typing import Any

import anywidget

from labkit.widgets.scene import Mark, still


class View(anywidget.AnyWidget):
    """A widget that also has a still picture.

    Invariant: `svg` and `repr` depend only on what the view shows, so that a notebook that is run
    again is the same file.
    """

    @abstractmethod
    def svg(self) -> str:
        """The still picture as an SVG document that needs nothing from elsewhere."""

    @abstractmethod
    def __repr__(self) -> str:
        """The picture in one line of words."""

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The moving view, and the still picture for readers without a kernel.

        Notebook viewers differ in what they let through: some show no inline SVG, some no image
        type that is not theirs.  An image with its data in its address passes all that were tried.
        """
        data, metadata = super()._repr_mimebundle_(**options) or ({"text/plain": repr(self)}, {})
        return data | _image(data["text/plain"], self.svg()), metadata


class StillPicture(ABC):
    """What has a picture that does not move; it changes when it is drawn again."""

    @abstractmethod
    def scene(self) -> Mark:
        """The picture."""

    def svg(self) -> str:
        """The picture as an SVG document that needs nothing from elsewhere."""
        return still(self.scene(), words=repr(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), **_image(repr(self), self.svg())}

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]


def _image(words: str, svg: str) -> dict[str, str]:
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    html = f'<img alt="{escape(words, quote=True)}" src="{address}">'
    return {"text/html": html, "image/svg+xml": svg}
