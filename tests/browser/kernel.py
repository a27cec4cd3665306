"""A stand-in for the kernel behind a view, which passes messages and changed traits to the page."""

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from labkit.views.widgets.scene_view import SceneView

Opened = Callable[..., Page]
"""Opens views on a page: the fixture `opened`."""

_TRAITS = ("film", "controls", "notice", "ended")
_PLACE = "document.querySelector('.labkit')"

DISPLAY_AGAIN = """() => {
  const again = document.createElement("div");
  document.querySelector("main").append(again);
  window.over = new AbortController();
  document.querySelector(".labkit").display(again, window.over.signal);
}"""
"""Displays the page's first view a second time, until `window.over` aborts."""


class Kernel:
    """The kernel behind the page's first view.

    A live view uses the event loop that Playwright keeps running, so the view continues to update
    while a test waits for the page.
    """

    def __init__(self, page: Page, view: SceneView) -> None:
        self.page = page
        self.view = view
        self.messages: list[Any] = []
        """Messages from the view that have not been passed to the page yet."""
        view.send = lambda message: self.messages.append(json.loads(json.dumps(message)))
        self._known = self._traits()

    def answer(self) -> None:
        """Let the view handle the messages that the page has sent since the last call."""
        for message in self.page.evaluate(f"{_PLACE}.sent?.splice(0) ?? []"):
            self.view.received(None, message, [])
        self.hand_over()

    def hand_over(self) -> None:
        """Pass the view's pending messages and changed traits to the page."""
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
