"""Write `docs/cluster-view.svg`, an animated cluster view of a run.

Run: `.venv/bin/python docs/make_moving_picture.py`
"""

from pathlib import Path

from labkit.views.widgets import ClusterView
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Write

FILE = Path(__file__).with_name("cluster-view.svg")


def moving_picture() -> str:
    """Return the SVG document, which is identical on every run."""
    crash = Crash("b1", when=On("lac.advanced", entry=2))
    trace = run(Scenario(Cluster(4), (Write(entries=6, every_ms=1.5),), (crash,)))
    end = next(at for at, event in enumerate(trace.events) if event.kind == "epilogue.started")
    # Show the events without controls, because a picture on a page has nothing to click.
    return ClusterView(trace.events[:end]).moving_svg()


if __name__ == "__main__":
    FILE.write_text(moving_picture(), encoding="utf-8")
