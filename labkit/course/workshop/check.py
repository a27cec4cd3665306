"""check: a step's trials with the learner's file as it is on disk now, and a card that says how it
went.

The trials run in a copy of this process that can be stopped
(`labkit.course.checking.forked_check`), and the steps of the learner's code are counted in the
quick ones (`labkit.course.checking.check.bounded`).
"""

from dataclasses import replace
from pathlib import Path

from labkit.course.checking.card import Card, CardState, Note
from labkit.course.checking.check import (
    ENDLESS,
    ENDS,
    NO_MEMORY,
    EndlessError,
    NotPassedError,
    bounded,
    must_pass_here,
)
from labkit.course.checking.exercise import Refused
from labkit.course.checking.forked_check import CAN_FORK, Reason, Stopped, in_forked_copy
from labkit.course.workshop.files import NotLoadedError, load, place_in, start_file, words_of
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import Figure, Step, Track, Trial, track

SEEDS = 200
"""Under how many seeds the simulated cluster is tried."""
LIMIT_S = 600.0
"""How long one check may take.  With right parts it takes less than a minute."""
_STOPPED = {
    Reason.LATE: f"{ENDLESS} after {LIMIT_S:.0f} s",
    Reason.ENDED: ENDS,
    Reason.MEMORY: NO_MEMORY,
}


def check(
    name: str,
    number: int,
    file: str | Path | None = None,
    *,
    seeds: int = SEEDS,
    must_pass: bool | None = None,
) -> Card:
    """Try step `number` of the track `name` ("bookie" or "client") with the learner's file.

    file: where it is; by default `mybookie.py` or `myclient.py` in this folder.  If it is missing,
    it is copied from the skeleton; it is never overwritten.  With `must_pass`, or where the
    environment has LABKIT_CHECKS=must-pass, a step that is not passed raises `NotPassedError`.
    Raises `NoSuchStepError` for a track or step that does not exist, and `OSError` where the file
    cannot be made.
    """
    found = track(name)
    asked = found.step(number)
    path = Path(file or found.file_name)
    is_new = start_file(found.skeleton, path)
    card = _checked(found, asked, path, seeds)
    if is_new:
        card = replace(card, message=f"{path} is new: it is for your code.\n{card.message}")
    if must_pass is None:
        must_pass = must_pass_here()
    if must_pass and not card.passed:
        raise NotPassedError(card)
    return card


def begin(name: str, file: str | Path | None = None) -> Path:
    """Make the learner's file of the track `name` unless it is there; returns where it is.

    Raises `NoSuchStepError` for a track that does not exist, and `OSError` where the file cannot be
    made.
    """
    found = track(name)
    path = Path(file or found.file_name)
    start_file(found.skeleton, path)
    return path


def step(name: str, number: int) -> Note:
    """What a step asks for: its invariants, what to write, the first test, the figure to reach.

    Raises `NoSuchStepError` for a track or step that does not exist.
    """
    asked = track(name).step(number)
    lines = [*(f"Always: {each}" for each in asked.invariants), f"Write: {asked.write}"]
    lines.append(f"The first test to pass:\n{asked.red.words}")
    lines += [
        f"The figure: {figure.name}, at most {figure.at_most:.2f} times labkit's own."
        for figure in asked.figures
    ]
    return Note(f"{track(name).title}, step {number}: {asked.name}", tuple(lines))


def _checked(found: Track, step: Step, path: Path, seeds: int) -> Card:
    title = _title(found, step)
    try:
        learner = load(path, seeds)
    except NotImplementedError:
        return Card(title, CardState.OPEN, _red(step))
    except NotLoadedError as error:
        return Card(title, CardState.REFUSED, f"{error}.")

    def whole() -> Card | None:
        return _card_or_none(found, step, learner)

    if CAN_FORK and not step.is_live:
        card: Card | Stopped | None = in_forked_copy(
            lambda timed: timed(), whole, LIMIT_S, str(path)
        )
        if isinstance(card, Stopped):
            problem = _STOPPED[card.reason]
            return Card(title, CardState.REFUSED, f"{problem} {card.where}".strip() + ".")
        if card is not None:
            return card
        learner = load(path, seeds)
    return _card(found, step, learner)


def _card_or_none(found: Track, step: Step, learner: Learner) -> Card | None:
    """What a trial itself raises is raised where it is seen: not in a copy."""
    try:
        return _card(found, step, learner)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001
        return None


def _card(found: Track, step: Step, learner: Learner) -> Card:
    title = _title(found, step)
    try:
        with bounded(learner.module.__name__):
            step.red.run(learner)
            learner.parts = _written(found, step, learner)
            said = [_tried(learner, trial) for trial in step.trials]
        said += [_tried(learner, trial) for trial in step.worlds]
        said += [_reached(learner, figure) for figure in step.figures]
    except NotImplementedError:
        return Card(title, CardState.OPEN, _red(step))
    except Refused as refused:
        return Card(title, CardState.REFUSED, refused.message, refused.counterexample)
    except (EndlessError, SystemExit, Exception) as error:
        where = place_in(learner.file, error.__traceback__)
        if not where:
            raise
        if isinstance(error, EndlessError):
            return Card(title, CardState.REFUSED, f"{ENDLESS} it was last in {where}.")
        return Card(title, CardState.REFUSED, f"Your code raised {words_of(error)} in {where}.")
    return Card(title, CardState.PASSED, "\n".join((*said, *_open_ends(step))))


def _title(found: Track, step: Step) -> str:
    return f"{found.name}, step {step.number}: {step.name}"


def _written(found: Track, step: Step, learner: Learner) -> tuple[str, ...]:
    """The parts of this step, and of those before it that are begun."""
    parts: tuple[str, ...] = step.parts
    for earlier in found.steps:
        if earlier.number < step.number:
            try:
                earlier.red.run(learner)
            except NotImplementedError:
                learner.error = None
                continue
            parts += earlier.parts
    return parts


def _tried(learner: Learner, trial: Trial) -> str:
    said = trial(learner)
    if learner.error is not None:
        raise learner.error
    return said


def _reached(learner: Learner, figure: Figure) -> str:
    """The figure in words.  Raises `Refused` where it is not reached."""
    yours, ours = figure.measure(learner), figure.measure(None)
    ratio = yours / ours
    said = f"{figure.name}: {yours:.3g} with your parts, {ours:.3g} with labkit's"
    if ratio > figure.at_most:
        raise Refused(
            f"All promises hold; the figure is not reached. {said}: {ratio:.2f} times as much, and"
            f" at most {figure.at_most:.2f} is allowed."
        )
    return f"{said}: {ratio:.2f} times as much (at most {figure.at_most:.2f})."


def _red(step: Step) -> str:
    """What an open step says: how to begin."""
    return f"It waits for your code: {step.write}\nThe first test to pass:\n{step.red.words}"


def _open_ends(step: Step) -> list[str]:
    return [f"Open: {challenge}" for challenge in step.challenges]
