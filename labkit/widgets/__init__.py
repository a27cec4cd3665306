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

Two are still pictures only: `log_usage` (what of each entry log lives) and `step_list` (what comes
after what).

A view keeps no model of its own.  What moves is folded from events, in Python for the still picture
and by the same rules in JavaScript for the moving one, so that it plays without the kernel; tests
compare the two.  A view is one module, made of the files that it names; `view.css` and `drawing`
hold what all share.

Read in this order: `view`, `drawing`, then a view with its `*_svg` and its `.js`.
"""

from labkit.widgets.bookie_inside import BookieInside
from labkit.widgets.cluster_view import ClusterView
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
