"""Pictures: each a widget for JupyterLab, and a still picture of the same.

    ClusterView     bookies as columns, entries as rows                drawn from a trace
    EnsembleHistory where a ledger was stored, from moment to moment   drawn from a trace
    Stripes         entry by bookie for any E, Qw and Qa; who may fail drawn from three numbers
    RecoveryProgress auditor, lost bookies, marks, copies come back   drawn from a trace
    SpaceTime       lanes of nodes, messages as arrows, one entry      drawn from a trace
    BookieInside    one bookie: memtable, journal, entry log, index    drawn from a trace
    MessageIdLineage a MessageID down to its bytes on each bookie       drawn from what was found
    XRay            bytes under the names of their fields              drawn from pieces of files
    CrashMapView    every point at which a machine may stop            drawn from a crash map
    TimelineView    a run, what led to each event, another future      drawn from a trace

Two stand still: `log_usage` (what of each entry log lives) and `step_list` (what comes after what).

A view keeps no separate model, and is drawn once.  It is a function in Python from a state to a
*scene*, an immutable tree of marks: the still picture is that scene as SVG, and the browser gets a
film of scenes, which it plays without the kernel.  Nothing in `browser/` knows what a view shows:
a view is added in Python alone, as a folder.  Read in this order:

    scene       marks, their SVG; `palette` has the colours, `letters` how wide text is
    film        the scenes of a run as tables that a browser plays; `animated`, as one SVG file
    pace        the clock that all views of a run share; `run` puts events on it
    view        a widget with a still picture; `scene_view`, choices and clicks; `playing`, a run
    bundle      the modules of `browser/` as the one that anywidget takes; `page`, without a kernel
"""

from labkit.widgets.bookie_inside import BookieInside
from labkit.widgets.cluster import ClusterView
from labkit.widgets.crash_map import CrashMapView
from labkit.widgets.ensemble_history import EnsembleHistory
from labkit.widgets.lineage import MessageIdLineage
from labkit.widgets.recovery_progress import RecoveryProgress
from labkit.widgets.space_time import SpaceTime
from labkit.widgets.stripes import Stripes
from labkit.widgets.timeline import TimelineView
from labkit.widgets.xray import XRay

__all__ = [
    "BookieInside",
    "ClusterView",
    "CrashMapView",
    "EnsembleHistory",
    "MessageIdLineage",
    "RecoveryProgress",
    "SpaceTime",
    "Stripes",
    "TimelineView",
    "XRay",
]
