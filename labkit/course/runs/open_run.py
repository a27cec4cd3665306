"""Opens a link to a run or to a crash map. The run is repeated, and is shown in the view and at the
moment that the link specifies.

open_run("run.1.eNpNkE9...ACxp.57")     in a notebook

`labkit open LINK` writes the same view to an HTML page, and the site's page `run.html` shows the
view in a browser tab.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labkit import __version__
from labkit.course.runs.game.game import Game
from labkit.course.runs.play import Play, two_plays
from labkit.course.runs.timeline import timeline
from labkit.system.check import broken, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.views.widgets.bookie_inside import BookieInside
from labkit.views.widgets.cluster import ClusterView
from labkit.views.widgets.crash_map import CrashMapView
from labkit.views.widgets.ensemble_history import EnsembleHistory
from labkit.views.widgets.page import page
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.views.widgets.scene_view import Message, SceneView
from labkit.views.widgets.space_time import SpaceTime
from labkit.views.widgets.timeline import TimelineView
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.play.played import play
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import CrashMapLink, RunLink, parse_link
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.storage_variants import DEFECTS

STEP_BUDGET = 500_000
"""The maximum number of steps of a run from a link: ten times the largest generated run."""


def open_run(link: str) -> SceneView:
    """Repeat the run or the crash map that a link describes, and return a view of it, opened at the
    moment given by the link.

    The link is either the whole URL or only the part after the #. If this version of labkit runs
    the scenario differently from the version that made the link, the view says so.

    Raises `BKIncorrectParameterException` if the link is invalid, and `SimulationError` if the run
    does not end within `STEP_BUDGET` steps.
    """
    return view_of(parse_link(link))


def page_of(link: RunLink | CrashMapLink) -> str:
    """Return the view as an HTML page that works without a kernel. Raises the same errors as
    `open_run`.
    """
    view = view_of(link, can_fork=False)
    view.controls = []
    what = link.content_name.capitalize()
    return page([view], f"{what} of labkit, {link.digest[:8]}")


@dataclass(frozen=True, slots=True)
class FixedRun:
    """A run that cannot be repeated in the place where it is shown, so its view has no fault
    buttons.
    """

    recorded: Trace

    @property
    def events(self) -> Sequence[Event]:
        return self.recorded.events

    def link(self, view: str, selection: Mapping[str, Any]) -> str:
        return self.recorded.link(view, selection)


Source = Trace | FixedRun


def view_of(link: RunLink | CrashMapLink, *, can_fork: bool = True) -> SceneView:
    """Repeat the run or the crash map, and return a view of it, with a notice if it differs from
    the one for which the link was made.
    """
    if isinstance(link, CrashMapLink):
        return _crash_map(link)
    if link.view not in VIEWS:
        raise BKIncorrectParameterException(
            f"the link opens an unknown view, {link.view!r}; valid views: {', '.join(VIEWS)}"
        )
    trace = run_of(link.scenario)
    try:
        view = VIEWS[link.view](_within(link, trace), trace if can_fork else FixedRun(trace))
    except ValueError as error:  # The view needs a ledger, but the run creates none.
        raise BKIncorrectParameterException(f"the link's run cannot be shown: {error}") from None
    view.notice = _difference(link, RunLink.parse(view.link()).digest)
    # Do not play the run, because the reader wants to see this moment.
    view.film = view.film | {"stays": True}
    return view


def run_of(scenario: Scenario) -> Trace:
    """Run a scenario from a link, within the step budget for links. Raises `SimulationError`."""
    return run(scenario, STEP_BUDGET)


def _difference(link: RunLink | CrashMapLink, digest: str) -> str:
    run_, scenario = ("run", "scenario") if isinstance(link, RunLink) else ("crash map", "script")
    if link.code is not None:
        included = f"is included as text ({type(link).__name__}.parse(LINK).code)"
        return (
            f"This {run_} used a learner's code, which {included if link.code else 'is missing'}."
            f" You see the same {scenario} with labkit's own code."
        )
    if digest == link.digest:
        return ""
    return (
        f"The link was made by labkit {link.version or 'of an unknown version'}. This labkit,"
        f" {__version__}, runs the {scenario} differently, so the moment may be another one."
    )


def _crash_map(link: CrashMapLink) -> CrashMapView:
    crashes = crash_map(
        link.script,
        store_factory=DEFECTS[link.defect].store_factory if link.defect else LedgerStore,
        journal_count=link.journal_count,
        ledger_dir_count=link.ledger_dir_count,
    )
    columns = len(crashes.variants)
    last = len(crashes.points) * columns - 1
    view = CrashMapView(crashes, divmod(min(max(link.at, 0), last), columns))
    view.notice = _difference(link, crashes.digest)
    return view


# The views. A link may come from a stranger, so check that everything it selects exists in the run.


def _within(link: RunLink, trace: Trace) -> RunLink:
    chosen = link.selection
    ledgers = {event.ledger for event in trace.events if event.kind == "ledger.created"}
    return replace(
        link,
        selection=replace(
            chosen,
            ledger=chosen.ledger if chosen.ledger in ledgers else None,
            bookie=chosen.bookie if chosen.bookie in trace.scenario.cluster.names else "",
        ),
        at=link.at if link.other else min(link.at, len(trace.events) - 1),
    )


def _bookie(link: RunLink, source: Source) -> BookieInside:
    bookie, page_size = link.selection.bookie or None, link.scenario.cluster.storage.page_size
    return BookieInside(source, bookie, link.at + 1, page_size)


def _space_time(link: RunLink, source: Source) -> SpaceTime:
    chosen, verdicts = link.selection, broken(check_all(source.events))
    promise = next((each for each in verdicts if each.name == chosen.promise), None)
    view = SpaceTime(source, ledger=chosen.ledger, broken=promise, at=link.at)
    _choose(view, "last", chosen.last_entry)
    _choose(view, "first", chosen.first_entry)
    _choose(view, "end", chosen.end_ms)
    _choose(view, "begin", chosen.begin_ms)
    _choose(view, "follow", str(chosen.follow))
    _choose(view, "real_time", "time" if chosen.real_time else "order")
    return view


def _timeline(link: RunLink, source: Source) -> TimelineView:
    trace, again = (source.recorded, None) if isinstance(source, FixedRun) else (source, run_of)
    other = link.other and run_of(link.other)
    view = timeline(trace, other=other, at=None if other else link.at, again=again)
    if other:
        run_, fork = view.shown
        view.put(run_, fork, min(link.at + 1, len(view.run.events)))
    chosen = link.selection
    _choose(view, "ledger", "" if chosen.ledger is None else str(chosen.ledger))
    _choose(view, "of node", chosen.event_node)
    _choose(view, "of kind", chosen.event_kind)
    return view


def _play(link: RunLink, source: Source) -> PlayingView:
    if isinstance(source, FixedRun):  # No moves are possible here; show what was played.
        return ClusterView(source, at=link.at)
    if link.view == "Game":
        return Game.of(link.scenario, link.at, link.selection.level)
    return Play(link.scenario, at=link.at)


def _two_plays(link: RunLink, source: Source) -> TimelineView:
    if link.other is None:
        return _timeline(link, source)
    view = two_plays(play(link.scenario), play(link.other))
    this, branch = view.shown
    view.put(this, branch, min(link.at + 1, len(view.run.events)))
    return view


VIEWS: Mapping[str, Callable[[RunLink, Source], PlayingView]] = {
    "ClusterView": lambda link, source: ClusterView(source, link.selection.ledger, link.at),
    "EnsembleHistory": lambda link, source: EnsembleHistory(source, link.selection.ledger, link.at),
    "BookieInside": _bookie,
    "Game": _play,
    "Play": _play,
    "RecoveryProgress": lambda link, source: RecoveryProgress(source, link.at),
    "SpaceTime": _space_time,
    "TimelineView": _timeline,
    "TwoPlays": _two_plays,
}


def _choose(view: PlayingView, name: str, value: Any) -> None:
    """Choose a value, as a reader would do, if the view offers this value."""
    control = next((each for each in view.choices() if each["name"] == name), None)
    if control is not None and value != control["value"] and _is_offered(control, value):
        view.choose(name, value, -1)


def _is_offered(control: Message, value: Any) -> bool:
    if control["kind"] == "choice":
        return any(value == option for option, _ in control["options"])
    return value is not None and control["min"] <= value <= control["max"]
