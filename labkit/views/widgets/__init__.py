"""Views: each is a widget for JupyterLab, and a still picture of the same.

    ClusterView     bookies as columns, entries as rows                drawn from a trace
    EnsembleHistory where a ledger was stored, from moment to moment   drawn from a trace
    Stripes         entries by bookie for E, Qw and Qa; failures       drawn from three numbers
    RecoveryProgress auditor, lost bookies, marks, new copies         drawn from a trace
    SpaceTime       lanes of nodes, messages as arrows, one entry      drawn from a trace
    BookieInside    one bookie: memtable, journal, entry log, index    drawn from a trace
    MessageIdLineage a MessageID down to its bytes on each bookie       drawn from a `Lineage`
    XRay            bytes under the names of their fields              drawn from pieces of files
    CrashMapView    every point at which a machine can stop            drawn from a crash map
    TimelineView    a run, what led to each event, another future      drawn from a trace

Two pictures only stand still: `log_usage` (the live bytes of each entry log) and `step_list` (steps
in their order).

A view keeps no separate model, and is drawn by one piece of code: a Python function from a state to
a *scene*, an immutable tree of marks.  The still picture is that scene as SVG, and the browser gets
a film of scenes, which it plays without the kernel.  Nothing in `browser/` knows what a view shows:
to add a view, add a folder in Python.  Read in this order:

    scene       marks and their SVG; `palette` has the colours, `text_metrics` the widths of text
    film        the scenes of a run as tables that a browser plays; `animated`, as one SVG file
    pace        the clock that all views of a run share; `run` gives events their places on it
    view        a widget with a still picture; `scene_view` adds choices and clicks, `playing` a run
    bundle      joins the modules of `browser/` into one, for anywidget; `page` is without a kernel
"""

from labkit.views.widgets.bookie_inside import BookieInside
from labkit.views.widgets.cluster import ClusterView
from labkit.views.widgets.crash_map import CrashMapView
from labkit.views.widgets.ensemble_history import EnsembleHistory
from labkit.views.widgets.lineage import MessageIdLineage
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
    "RecoveryProgress",
    "SpaceTime",
    "Stripes",
    "TimelineView",
    "XRay",
]
