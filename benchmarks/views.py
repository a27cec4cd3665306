"""Measures how fast a view of a long run is created, how fast it plays, and how fast it jumps to
another moment.

    .venv/bin/python -m benchmarks.views

Views play in headless Chromium, on a page without a kernel. A jump ends when the page layout has
been updated.
"""

from collections.abc import Sequence
from gzip import compress
from json import dumps
from pathlib import Path
from shutil import which
from time import process_time
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure
from labkit.system.trace.events import Event
from labkit.views.widgets import ClusterView, SpaceTime
from labkit.views.widgets.page import page
from labkit.views.widgets.scene_view import SceneView
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.steps import Write

_REPEATS, _JUMPS, _PLAYED_MS = 3, 200, 4000
_EVENTS = 10_000
_VIEWS: dict[str, type[ClusterView] | type[SpaceTime]] = {
    "cluster view": ClusterView,
    "space-time diagram": SpaceTime,
}
_MEASURE = """async ([count, ms]) => {
  const slider = document.querySelector("input[type=range]"), jumps = [];
  const go = (part) => {
    slider.value = part * slider.max;
    slider.dispatchEvent(new Event("input"));
    document.body.getBoundingClientRect();
  };
  for (let at = 0; at < count; at++) {
    const began = performance.now();
    go(at * 7919 % 10007 / 10007);
    jumps.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  go(0);
  document.querySelector("button[aria-label=Play]").click();
  let frames = 0;
  const began = performance.now();
  while (performance.now() - began < ms) {
    await new Promise(requestAnimationFrame);
    frames += 1;
  }
  jumps.sort((a, b) => a - b);
  return [frames / ms * 1000, jumps[count >> 1], jumps[Math.floor(count * 0.99)]];
}"""


def main() -> None:
    quick = benchmark_parser(__doc__, quick="the same figures").parse_args().quick
    with measuring("views", only_print=quick) as found, sync_playwright() as playwright:
        events = _long_run()
        found.remark = f"a run of {len(events):,} events"
        browser = playwright.chromium.launch(executable_path=which("chromium"))
        for name, view in _VIEWS.items():
            found.figures += _figures(name, view, events, browser, found.folder / "view.html")
        browser.close()


def _long_run() -> Sequence[Event]:
    write = Write(entries=650, window=4, every_ms=2)
    trace = run(Scenario(Cluster(5), (write,), (Crash("b1", when=At(400)),)))
    return trace.events[:_EVENTS]


def _figures(
    name: str,
    view: type[ClusterView] | type[SpaceTime],
    events: Sequence[Event],
    browser: Browser,
    file: Path,
) -> list[Figure]:
    seconds, found = list[float](), list[Sequence[float]]()
    for _ in range(_REPEATS):
        began = process_time()
        made = view(events)
        seconds.append(process_time() - began)
        found.append(_played(made, browser, file))
    frames, middle, slow = zip(*found, strict=True)
    film = dumps(made.film, separators=(",", ":")).encode()
    size = f"film {len(film) / 1e6:.1f} MB, compressed {len(compress(film)) / 1e6:.2f} MB"
    return [
        Figure(f"{name}: made, processor time", seconds, " s", note=size, is_work=True),
        Figure(f"{name}: frames while it plays", frames, "/s", at_least=30),
        Figure(f"{name}: a jump, middle of {_JUMPS}", middle, " ms"),
        Figure(f"{name}: a jump, 99 of 100", slow, " ms", at_most=50),
    ]


def _played(view: SceneView, browser: Browser, file: Path) -> Any:
    file.write_text(page([view]), encoding="utf-8")
    tab = browser.new_page(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    tab.goto(file.as_uri())
    tab.wait_for_selector(".lk-picture svg")
    found = tab.evaluate(_MEASURE, [_JUMPS, _PLAYED_MS])
    tab.close()
    return found


if __name__ == "__main__":
    main()
