"""Generates the landing page, which shows an animation of a real run in which a visitor can kill a
bookie.

The page does not need Python in the browser, because all runs are recorded when the site is built.
For each bookie and each of several moments, the page contains a fork of the run in which this
bookie is killed at this moment.
"""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from string import Template

from labkit.views.widgets.acts import Acts
from labkit.views.widgets.cluster import ClusterView
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.rerun_with_fault import fork_range
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write
from tools.site.address import Address
from tools.site.doors import doors_html
from tools.site.lessons import Lesson
from tools.site.views import Views, state_of

SCENARIO = Scenario(
    Cluster(bookies=5), (Write(entries=8, ensemble=4, write_quorum=3, ack_quorum=2),), seed=1
)
SPACING_MS = 1000
"""The minimum duration of the animation, in milliseconds, between two moments at which a bookie can
be killed.
"""

_TEXT = Path(__file__).parent / "theme" / "landing.md"


class LandingView(ClusterView):
    """The cluster view with kills as the only faults, because the page has no other forks."""

    def acts(self) -> Acts:
        return super().acts()._replace(offered=("kill",))


def landing(lessons: Iterable[Lesson], address: Address | None, views: Views, cache: Path) -> str:
    rows = (
        f"| [{each.title}](course/{each.path.name}) | {_where(each, address)} |" for each in lessons
    )
    return Template(_TEXT.read_text(encoding="utf-8")).substitute(
        run=views.recorded(cache / "landing", partial(breakable_run, run(SCENARIO))),
        doors=doors_html(None, address),
        course="\n".join(rows),
    )


def breakable_run(trace: Trace, views: Views) -> str:
    view = LandingView(trace)
    state = state_of(view)
    forks = {
        bookie: [[seq, _fork(view, seq, bookie, views)] for seq in list(moments(view))]
        for bookie in trace.scenario.cluster.names
    }
    return views.place(state | {"forks": forks}, view.image())


def moments(view: LandingView) -> Iterator[int]:
    """Yield the events after which a bookie can be killed, at least `SPACING_MS` apart."""
    first, last = fork_range(SCENARIO, view.run.events)
    after = -SPACING_MS
    for at, _, _, seq in view.film["beats"]:
        if first <= seq <= last and at - after >= SPACING_MS:
            after = at
            yield seq


def _fork(view: LandingView, seq: int, bookie: str, views: Views) -> str:
    view.fork(seq, "kill", bookie)
    name = views.keep(json.dumps(view.film, separators=(",", ":")), ".json")
    view.undo()
    return name


def _where(lesson: Lesson, address: Address | None) -> str:
    if lesson.in_a_tab:
        return "in a tab"
    return "on Binder, at home" if address else "at home"
