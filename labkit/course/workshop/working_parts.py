"""The parts that a learner has written, and a bookie's store that uses them."""

from pathlib import Path

from labkit.course.checking.card import Note
from labkit.course.checking.exercise import Refused
from labkit.course.workshop.bookie.store import store_of
from labkit.course.workshop.definitions import Definition, definitions_in
from labkit.course.workshop.files import add_stand_ins, load
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Step, Track, track
from labkit.system.storage.store import LedgerStore


def working_parts(found: Track, learner: Learner) -> tuple[str, ...]:
    """Return the parts of each step whose first test passes. For the others, add the functions that
    later parts call.
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
    """Return labkit's store with the learner's part for each step whose first test passes.

    Without a file, all parts are labkit's. Raises `NotLoadedError` if the file cannot be loaded.
    """
    found = track("bookie")
    path = Path(file or found.file_name)
    if not path.exists():
        return LedgerStore
    learner = load(path, seeds=0)
    learner.parts = working_parts(found, learner)
    return store_of(learner)


def overview(name: str, file: str | Path | None = None) -> Note:
    """Return which steps of the track `name` the learner has written, with the number of lines.

    Raises `NoSuchStepError` for an unknown track, `SyntaxError` and `OSError`.
    """
    found = track(name)
    path = Path(file or found.file_name)
    if not path.exists():
        return Note(
            f"{path.name} is not in this folder",
            (
                "Your next check creates it. If you wrote parts of it in earlier lessons, run the"
                " cells with your code again, or copy the file into this folder.",
            ),
        )
    written = [each for each in definitions_in(path.read_text(encoding="utf-8")) if each.is_written]
    count = sum(bool(line.strip()) for each in written for line in each.text.splitlines())
    lines = [_line_of(step, written) for step in found.steps if not step.is_live]
    return Note(f"{path.name}: {count} lines are yours", tuple(lines))


def _line_of(step: Step, written: list[Definition]) -> str:
    missing = set(step.parts) - {each.name for each in written}
    state = "labkit's, for now" if missing else "yours"
    # Written is not the same as passed, so this is not the sign of a passed step.
    return f"{'○' if missing else '●'} {step.number} {step.name}: {state}"
