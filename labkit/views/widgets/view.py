"""The base of every view: a moving picture in JupyterLab, and a still one elsewhere."""

from abc import ABC, abstractmethod
from base64 import b64encode
from typing import Any

import anywidget

from labkit.views.widgets.scene import Mark, escaped, still


class View(anywidget.AnyWidget):
    """A widget that also has a still picture.

    Invariant: `svg` and `repr` depend only on the picture, so that a notebook that is run again
    gives the same file.
    """

    @abstractmethod
    def svg(self) -> str:
        """The still picture as a self-contained SVG document."""

    @abstractmethod
    def __repr__(self) -> str:
        """The picture in one line of words."""

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The moving view, and the still picture for readers without a kernel.

        Notebook viewers differ: some show no inline SVG, some only certain image types.  All
        viewers that were tried show an image with a data URL.
        """
        data, metadata = super()._repr_mimebundle_(**options) or ({"text/plain": repr(self)}, {})
        return data | _image(data["text/plain"], self.svg()), metadata


class StillPicture(ABC):
    """The base of pictures that do not move; they change when they are drawn again."""

    @abstractmethod
    def scene(self) -> Mark:
        """The picture."""

    def svg(self) -> str:
        return still(self.scene(), words=repr(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), **_image(repr(self), self.svg())}

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]


def _image(words: str, svg: str) -> dict[str, str]:
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    html = f'<img alt="{escaped(words, quote=True)}" src="{address}">'
    return {"text/html": html, "image/svg+xml": svg}
