"""The public names of `import labkit`, and the module of each.

This is the only list of them: `__init__.py` looks names up in it, type checkers and editors read
it, and the API page of the site is generated from it.
"""

from .course.runs.game.game import Game
from .course.runs.open_run import open_run
from .course.runs.play import Play
from .course.runs.timeline import timeline
from .system.check import broken, check_all
from .views.spark.session import spark_session
from .views.widgets import (
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
from .worlds.live.processes.cluster import LocalCluster
from .worlds.sim.run import run
from .worlds.sim.scenario.faults import Crash, Delay, Partition, Pause
from .worlds.sim.scenario.scenario import Scenario
from .worlds.sim.settings.cluster import Cluster
from .worlds.sim.settings.triggers import At, On
from .worlds.sim.workload.steps import Read, Recover, Write

__all__ = [
    "At",
    "BookieInside",
    "Cluster",
    "ClusterView",
    "Crash",
    "CrashMapView",
    "Delay",
    "EnsembleHistory",
    "Game",
    "LocalCluster",
    "MessageIdLineage",
    "On",
    "Partition",
    "Pause",
    "Play",
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
    "open_run",
    "run",
    "spark_session",
    "timeline",
]
__version__: str
