"""The base class of all views, which are interactive in JupyterLab and still pictures elsewhere."""

import os
from abc import ABC, abstractmethod
from base64 import b64encode
from typing import Any

import anywidget

from labkit.views.widgets.drawing.scene import Mark, escaped, still

NBGRADER = "NBGRADER_EXECUTION"
"""nbgrader sets this to "validate" or "autograde" in the kernels that it starts."""


class View(anywidget.AnyWidget):
    """A widget that also has a still picture.

    Invariant: `svg` and `repr` depend only on the picture, so re-running a notebook does not change
    its file.
    """

    @abstractmethod
    def svg(self) -> str:
        """Return the still picture as a self-contained SVG document."""

    @abstractmethod
    def __repr__(self) -> str:
        """Return a one-line text description of the picture."""

    def open(self) -> None:
        """Connect to the browser, but not under nbgrader, which would store the code and the film
        of every view in the graded notebook.
        """
        if NBGRADER not in os.environ:
            super().open()

    def image(self) -> str:
        """Return the still picture as an HTML element."""
        return self._still()["text/html"]

    def link(self) -> str:
        """Return a link that opens this view, or "". If the project is published, it is the address
        of a page.
        """
        return ""

    def _still(self) -> dict[str, str]:
        link = self.link()
        return _image(repr(self), self.svg(), link if link.startswith("https:") else "")

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the interactive view, and the still picture for readers without a kernel.

        The still picture is an image with a data URL, because every viewer that we have tried can
        show one. Some viewers do not show inline SVG, and others support only certain image types.
        A link cannot work inside such an image, so the whole image links to the page that plays the
        view.
        """
        if self.comm is None:
            return {"text/plain": repr(self), "text/html": self.image()}, {}
        data, metadata = super()._repr_mimebundle_(**options) or ({"text/plain": repr(self)}, {})
        return data | self._still(), metadata


class StillPicture(ABC):
    """Base class of pictures that are not interactive; to update one, draw it again."""

    @abstractmethod
    def scene(self) -> Mark:
        """Return the picture as a scene."""

    def svg(self) -> str:
        return still(self.scene(), words=repr(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), **_image(repr(self), self.svg())}

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]


def _image(words: str, svg: str, link: str = "") -> dict[str, str]:
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    html = f'<img alt="{escaped(words, quote=True)}" src="{address}">'
    if link:
        html = f'<a href="{escaped(link)}" title="Play this on the site">{html}</a>'
    return {"text/html": html, "image/svg+xml": svg}
