"""Exports views as one HTML file that plays without a kernel and without network access.

Buttons that need a kernel do nothing on such a page.
"""

import json
from collections.abc import Sequence
from html import escape

from labkit.views.widgets.scene_view import MODULE, STYLE, SceneView

_TRAITS = ("film", "controls", "notice", "ended")

_PAGE_STYLE = """
body { margin: 0; background: Canvas; color-scheme: light dark; }
h1 { font: 600 16px system-ui, sans-serif; margin: 6px 8px; color: CanvasText; }
"""
_SCRIPT = """
for (const place of document.querySelectorAll(".labkit")) {
  const state = JSON.parse(place.querySelector("script").textContent);
  const heard = {};
  const model = {
    get: (name) => state[name],
    set: (name, value) => {
      state[name] = value;
      (heard[`change:${name}`] ?? []).forEach((each) => each());
    },
    send: (message) => { (place.sent ??= []).push(message); },
    receive: (message) => (heard["msg:custom"] ?? []).forEach((each) => each(message)),
    on: (name, handle) => { (heard[name] ??= []).push(handle); },
    off: (name, handle) => { heard[name] = (heard[name] ?? []).filter((each) => each !== handle); },
  };
  place.model = model;
  place.display = (el, signal) => render({ model, el, signal });
  place.display(place, new AbortController().signal);
}
"""


def page(views: Sequence[SceneView], title: str = "labkit") -> str:
    """Return the HTML page. Views of the same run share one clock."""
    places = "\n".join(_place(view) for view in views)
    module = MODULE.replace("export default { render: _view.render };", "const { render } = _view;")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_PAGE_STYLE}{STYLE}</style></head><body><main><h1>{escape(title)}</h1>\n"
        f'{places}\n</main><script type="module">{module}{_SCRIPT}</script></body></html>\n'
    )


def state_of(view: SceneView) -> str:
    """Return the traits of a view that a page needs, as JSON."""
    return json.dumps({name: getattr(view, name) for name in _TRAITS}, separators=(",", ":"))


def _place(view: SceneView) -> str:
    # A note must not open an HTML comment or close the script element.
    safe = state_of(view).replace("<", "\\u003c")
    return f'<div class="labkit"><script type="application/json">{safe}</script></div>'
