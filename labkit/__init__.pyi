"""The front door: the names that `import labkit` offers, and where each one lives.

This list is the only one: `__init__.py` looks names up in it, type checkers and editors read it,
and `docs/api.md` is made from it.
"""

from .check import broken, check_all
from .lessons.timeline import timeline
from .live.cluster import LocalCluster
from .sim.cluster import Cluster
from .sim.faults import Crash, Delay, Partition, Pause
from .sim.moments import At, On
from .sim.run import run
from .sim.scenario import Scenario
from .sim.workload import Read, Recover, Write
from .spark.session import spark_session
from .widgets import (
    BookieInside,
    ClusterView,
    CrashMapView,
    EnsembleHistory,
    MessageIdLineage,
    RecoveryProgress,
    SpaceTime,
    Stripes,
    XRay,
)

__all__ = [
    "At",
    "BookieInside",
    "Cluster",
    "ClusterView",
    "Crash",
    "CrashMapView",
    "Delay",
    "EnsembleHistory",
    "LocalCluster",
    "MessageIdLineage",
    "On",
    "Partition",
    "Pause",
    "Read",
    "Recover",
    "RecoveryProgress",
    "Scenario",
    "SpaceTime",
    "Stripes",
    "Write",
    "XRay",
    "broken",
    "check_all",
    "run",
    "spark_session",
    "timeline",
]
__version__: str
