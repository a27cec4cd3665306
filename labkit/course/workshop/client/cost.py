"""What the learner's program costs beside labkit's client, on one live cluster."""

from importlib import import_module

from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Figure


class _SideBySide:
    """Both clients in turn on the same bookies: figures of two clusters say little.

    `labkit.course.workshop.check` asks for the learner's figure first.
    """

    def __init__(self) -> None:
        self._ours = 0.0

    def __call__(self, learner: Learner | None) -> float:
        if learner is None:
            return self._ours
        # A browser tab has no `labkit.worlds.live`, and the other steps run there.
        served = import_module("labkit.course.workshop.client.served")
        yours, self._ours = served.processor_times(learner)
        return float(yours)


PROCESSOR_TIME = Figure(
    "processor ms for 1,000 entries on a live cluster, 100 at a time", 8.0, _SideBySide()
)
