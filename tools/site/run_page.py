"""Generates the page that opens links to runs.

The browser reads the link from the URL's fragment. Runs of the lessons and of the counterexamples
were recorded when the site was built, so they open without Python. For all other runs, and if the
visitor changes a run, `theme/run-worker.js` runs labkit in a worker, with the Python of the tab.
"""

from pathlib import Path
from string import Template

from labkit.course.runs.open_run import FixedRun
from labkit.course.runs.timeline import timeline
from labkit.system.check import broken, check_all
from labkit.views.widgets.cluster import ClusterView
from labkit.views.widgets.future_search import FutureSearch
from labkit.views.widgets.space_time import SpaceTime
from labkit.views.widgets.verdict_words import failure_of
from labkit.worlds.sim.explore.counterexamples import counterexample, kept
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink
from tools.site.views import Views, state_of

_TEXT = Path(__file__).parent / "theme" / "run.md"


def run_page(views: Views, cache: Path) -> str:
    """Return the page as Markdown. Call this function after all other views have been placed."""
    links = views.recorded(cache / "counterexamples", _counterexamples)
    text = Template(_TEXT.read_text(encoding="utf-8"))
    return text.substitute(views.files(), counterexamples=links)


def _counterexamples(views: Views) -> str:
    return "".join(_counterexample(variant, views) for variant in kept())


def _counterexample(variant: str, views: Views) -> str:
    """Prepare views of a counterexample, without controls but with the moment at which the failure
    became inevitable; return the link to the counterexample as a list item.
    """
    trace = run(counterexample(variant))
    verdict = broken(check_all(trace))[0]
    search = FutureSearch(trace, verdict.name)
    search.finish()
    for view in (
        timeline(trace, again=None),
        SpaceTime(FixedRun(trace), broken=verdict),
        ClusterView(FixedRun(trace)),
    ):
        view.show_search(search)
        views.place(state_of(view) | {"controls": []}, "")
    fragment = RunLink.parse(trace.link(at=verdict.seq)).fragment()
    return f'<li><a href="#{fragment}">{variant}</a>: {failure_of(verdict.name)}</li>'
