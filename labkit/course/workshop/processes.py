"""Runs trials that start processes. These trials are imported only when they run, because browsers
cannot load them.
"""

from importlib import import_module
from typing import Any

from labkit.course.checking.refused import Refused
from labkit.course.workshop.learner import Learner


def run_live_trial(name: str, number: int, learner: Learner) -> Any:
    """Run `serves_a_cluster` from the track's module `live_trial`, and return its result.

    name, number: the track and the step to which the trial belongs

    Raises `Refused` if processes cannot be started; the message says what is needed.
    """
    try:
        trial = import_module(f"labkit.course.workshop.{name}.live_trial")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("labkit.worlds.live"):
            raise
        raise Refused(
            "This step starts ZooKeeper (Java) and processes, which a browser tab cannot."
            " Download your file, install labkit on Linux or macOS (`labkit doctor` says what"
            " is missing there), or open the course on Binder; then, in a terminal:"
            f" labkit workshop {name} {number}"
        ) from None
    return trial.serves_a_cluster(learner)
