"""Stands in for the kernel of a view on a page: hands over messages, and traits that changed."""

import json
from typing import Any

from playwright.sync_api import Page

from labkit.views.widgets.scene_view import SceneView

_TRAITS = ("film", "controls", "notice")
_PLACE = "document.querySelector('.labkit')"


class Kernel:
    """The kernel of the page's first view.

    A live view takes the event loop that Playwright keeps running: it goes on while a test waits
    for the page.
    """

    def __init__(self, page: Page, view: SceneView) -> None:
        self.page = page
        self.view = view
        self.messages: list[Any] = []
        """What the view sent that the page did not get so far."""
        view.send = lambda message: self.messages.append(json.loads(json.dumps(message)))
        self._known = self._traits()

    def answer(self) -> None:
        """Let Python answer what the page sent since the last time."""
        for message in self.page.evaluate(f"{_PLACE}.sent?.splice(0) ?? []"):
            self.view.received(None, message, [])
        self.hand_over()

    def hand_over(self) -> None:
        """Give the page the messages of the view, and its traits that changed."""
        sent, self.messages[:] = list(self.messages), []
        for message in sent:
            self.page.evaluate(f"message => {_PLACE}.model.receive(message)", message)
        for name, value in self._traits().items():
            if value != self._known[name]:
                self._known[name] = value
                set_it = f"([name, value]) => {_PLACE}.model.set(name, value)"
                self.page.evaluate(set_it, [name, json.loads(value)])

    def _traits(self) -> dict[str, str]:
        return {name: json.dumps(getattr(self.view, name)) for name in _TRAITS}
