"""The parts that a learner has written, and a bookie's store that uses them."""

from pathlib import Path

from labkit.course.checking.card import Note
from labkit.course.checking.check import RanTooLongError, instruction_limit
from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.store import store_of
from labkit.course.workshop.definitions import definitions_in
from labkit.course.workshop.files import NotLoadedError, add_stand_ins, last_line_in, load
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import Step, Track, track
from labkit.system.storage.store import LedgerStore


def working_parts(found: Track, learner: Learner) -> tuple[str, ...]:
    """Return the parts of each step whose first test passes. For all other steps, add the functions
    that later parts call.
    """
    parts = dict[str, None]()
    for step in found.steps:
        try:
            if not step.is_live:
                step.first_test.run(learner)
                parts.update(dict.fromkeys(step.parts))
        except (NotImplementedError, Refused):
            learner.error = None
            add_stand_ins(learner, found, step)
    return tuple(parts)


def your_bookie(file: str | Path | None = None) -> type[LedgerStore]:
    """Return labkit's store with the learner's parts for those steps whose first test passes.

    If the file does not exist, all parts are labkit's. Raises `NotLoadedError` if the file cannot
    be loaded.
    """
    found = track("bookie")
    path = Path(file or found.file_name)
    if not path.exists():
        return LedgerStore
    learner = load(path, seeds=0)
    learner.parts = working_parts(found, learner)
    return store_of(learner)


def overview(name: str, file: str | Path | None = None) -> Note:
    """Return the number of lines that the learner has written, and the steps of the track `name`
    whose first test passes.

    Raises `NoSuchStepError` for an unknown track, and `OSError` if the file cannot be read.
    """
    found = track(name)
    path = Path(file or found.file_name)
    if not path.exists():
        return Note(f"{path.name} is not in this folder", (f"Your next check creates it. {_LOST}",))
    try:
        learner = load(path, seeds=0)
    except (NotLoadedError, NotImplementedError) as error:
        return Note(f"{path.name} cannot be run", (f"{error}",))
    steps = [step for step in found.steps if not step.is_live]
    begun = [step for step in steps if _is_begun(found, step, learner)]
    yours = tuple(dict.fromkeys(part for step in begun for part in step.parts))
    lines = [_line_of(step, step in begun, yours) for step in steps]
    count = _count_lines(path, found)
    return Note(f"{path.name}: {count} lines are yours", (*lines, *(() if count else (_LOST,))))


_LOST = (
    "If you wrote parts of it in earlier lessons, copy your file into this folder, or run the cells"
    " with your code again."
)


def _count_lines(file: Path, found: Track) -> int:
    """Count the non-blank lines of the definitions that differ from the skeleton's."""
    given = {
        each.name: each.text for each in definitions_in(found.skeleton.read_text(encoding="utf-8"))
    }
    return sum(
        bool(line.strip())
        for each in definitions_in(file.read_text(encoding="utf-8"))
        if each.is_written and each.text != given.get(each.name)
        for line in each.text.splitlines()
    )


def _line_of(step: Step, is_begun: bool, yours: tuple[str, ...]) -> str:
    # The first test is not the whole check, so do not show the symbol of a passed step.
    if is_begun:
        return f"● {step.number} {step.name}: yours"
    shared = [f"`{part}`" for part in step.parts if part in yours]
    if shared:
        names = " and ".join(shared)
        how = f"its first test does not pass yet; labkit runs your {names} anyway"
    else:
        how = "labkit's, for now"
    return f"○ {step.number} {step.name}: {how}"


def _is_begun(found: Track, step: Step, learner: Learner) -> bool:
    """Return whether the step's first test passes; an error in the learner's code counts as a
    failure. If the test fails, add the functions that later parts call.
    """
    learner.error = None  # Clear the error, which may come from an earlier step.
    try:
        with instruction_limit(learner.module.__name__):
            step.first_test.run(learner)
    except (RanTooLongError, SystemExit, Exception) as error:
        is_test_failed = isinstance(error, NotImplementedError | Refused)
        if not is_test_failed and not last_line_in(learner.file, error):
            raise
        add_stand_ins(learner, found, step)
        return False
    return True
