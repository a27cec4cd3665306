"""Pictures: each a widget for JupyterLab, and a still picture of the same.

    ClusterView     bookies as columns, entries as rows                drawn from a trace
    BookieInside    one bookie: memtable, journal, entry log, index    drawn from a trace
    XRay            bytes under the names of their fields              drawn from pieces of files
    CrashMapView    every point at which a machine may stop            drawn from a crash map

A view keeps no model of its own.  What moves is folded from events, in Python for the still picture
and by the same rules in JavaScript for the moving one, so that it plays without the kernel; tests
compare the two.  A view is one module, made of the files that it names; `view.css` and `drawing`
hold what all share.

Read in this order: `view`, `drawing`, then a view with its `*_svg` and its `.js`.
"""

from labkit.widgets.bookie_inside import BookieInside
from labkit.widgets.cluster_view import ClusterView
from labkit.widgets.crash_map import CrashMapView
from labkit.widgets.xray import XRay

__all__ = ["BookieInside", "ClusterView", "CrashMapView", "XRay"]
