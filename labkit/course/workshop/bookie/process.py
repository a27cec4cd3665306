"""Runs the learner's store in a real process, for `labkit bookie --store mybookie.py`."""

from pathlib import Path

from labkit.course.workshop.bookie.store import store_of
from labkit.course.workshop.bookie.track import TRACK
from labkit.course.workshop.files import NotLoadedError, load
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.store import LedgerStore


def store_from(file: Path) -> type[LedgerStore]:
    """Return a store class whose parts all come from the learner's file.

    Raises `BKIncorrectParameterException` if the file cannot be loaded or lacks a part.
    """
    try:
        learner = load(file, seeds=0)
    except (NotLoadedError, NotImplementedError) as error:
        raise BKIncorrectParameterException(f"--store {file}: {error}") from None
    learner.parts = tuple(part for step in TRACK.steps for part in step.parts)
    missing = [part for part in learner.parts if not hasattr(learner.module, part)]
    if missing:
        raise BKIncorrectParameterException(f"--store {file}: it lacks {', '.join(missing)}")
    return store_of(learner)
