"""Trials that start processes, imported only when they run, because browsers cannot load them."""

from importlib import import_module

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Trial


def in_processes(module: str, function: str, command: str) -> Trial:
    """Return a trial that runs `function` from that module, which needs `labkit.worlds.live`.

    If processes are not available, the step is refused; the message says what is needed, and which
    `command` runs the step.
    """

    def trial(learner: Learner) -> str:
        try:
            run: Trial = getattr(import_module(module), function)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("labkit.worlds.live"):
                raise
            raise Refused(
                "This step starts ZooKeeper (Java) and processes, which a browser tab cannot."
                " Download your file, install labkit on Linux or macOS (`labkit doctor` says what"
                f" is missing there), or open the course on Binder; then, in a terminal: {command}"
            ) from None
        return run(learner)

    return trial
