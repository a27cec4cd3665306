"""Interactive views: each is available both as a JupyterLab widget and as a static picture.

    ClusterView      bookies as columns, entries as rows              drawn from a trace
    EnsembleHistory  the ensembles of a ledger over time              drawn from a trace
    Stripes          which bookies store which entry, and failures    drawn from E, Qw and Qa
    RecoveryProgress auditor, lost bookies, re-replicated ledgers     drawn from a trace
    SpaceTime        a lane per node, messages as arrows              drawn from a trace
    BookieInside     one bookie: memtable, journal, entry log, index  drawn from a trace
    MessageIdLineage from a MessageID to its bytes on each bookie     drawn from a `Lineage`
    XRay             bytes labelled with the names of their fields    drawn from pieces of files
    CrashMapView     every point at which a machine can stop          drawn from a crash map
    PlayView         messages in flight, to be delivered by clicks    drawn from a trace
    TimelineView     a run, the causes of each event, and a fork      drawn from a trace

Two pictures are not interactive: `log_usage` (the live bytes in each entry log) and `step_list`
(steps in order).

A view does not have its own model. A Python function turns a state into a *scene*, an immutable
tree of marks, and the same scene is used twice: it is rendered as SVG for the still picture, and
sent to the browser as part of a film, which plays there without the kernel. The code in `browser/`
is the same for all views, so a new view needs only a new Python package. Read the modules in this
order:

    drawing/      marks and their SVG, colours, the width of texts, legends
    film          the scenes of a run as tables that a browser plays; `animated`: as one SVG file
    display_clock the clock that all views of a run share; `run` assigns a position to each event
    view          a widget with a still picture; `scene_view` adds `controls`, `playing` adds runs
    browser/link  copies a link to the displayed moment, for runs that have links
    bundle        joins the modules of `browser/` into one for anywidget; `page` needs no kernel
"""

from labkit.views.widgets.bookie_inside import BookieInside
from labkit.views.widgets.cluster import ClusterView
from labkit.views.widgets.crash_map import CrashMapView
from labkit.views.widgets.ensemble_history import EnsembleHistory
from labkit.views.widgets.lineage import MessageIdLineage
from labkit.views.widgets.play import PlayView
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.views.widgets.space_time import SpaceTime
from labkit.views.widgets.stripes import Stripes
from labkit.views.widgets.timeline import TimelineView
from labkit.views.widgets.xray import XRay

__all__ = [
    "BookieInside",
    "ClusterView",
    "CrashMapView",
    "EnsembleHistory",
    "MessageIdLineage",
    "PlayView",
    "RecoveryProgress",
    "SpaceTime",
    "Stripes",
    "TimelineView",
    "XRay",
]
