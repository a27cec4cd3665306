"""Runs a step's trials with the current contents of the learner's file, and returns a card.

The trials run in a forked copy of this process, which can be killed
(`labkit.course.checking.forked_check`). The quick trials also count the bytecode instructions of
the learner's code (`labkit.course.checking.check.instruction_limit`).
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from labkit.course.checking.card import Card, CardState, Note
from labkit.course.checking.check import (
    ENDLESS,
    ENDS,
    NO_MEMORY,
    NotPassedError,
    RanTooLongError,
    instruction_limit,
    must_pass_by_default,
)
from labkit.course.checking.forked_check import CAN_FORK, Reason, Stopped, in_forked_copy
from labkit.course.checking.hints_and_predictions import next_hint
from labkit.course.checking.progress import progress_line
from labkit.course.checking.refused import Refused, raised_words
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.runs.trial import CrashCounterexample
from labkit.course.workshop.definitions import save
from labkit.course.workshop.files import (
    NotLoadedError,
    add_stand_ins,
    create_if_missing,
    last_line_in,
    load,
)
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import Cost, Step, Track, Trial, track

SEEDS = 200
"""The number of seeds with which the simulated cluster is tested."""
LIMIT_S = 600.0
"""Time limit of one check. With correct parts, a check takes less than a minute."""
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
    parts: Sequence[Any] = (),
    seeds: int = SEEDS,
    must_pass: bool | None = None,
) -> Card:
    """Test step `number` of the track `name` ("bookie" or "client") with the learner's file.

    file: the learner's file; by default `mybookie.py` or `myclient.py` in the current folder. If
    it does not exist, it is copied from the skeleton.
    parts: functions and classes from cells of the notebook, which are first saved in the file
    (`labkit.course.workshop.definitions`).

    Raises `NotPassedError` if the step is not passed and `must_pass` is true or the environment
    variable LABKIT_CHECKS is "must-pass". Raises `NoSuchStepError` for an unknown track or step,
    and `OSError` if the file cannot be created.
    """
    found = track(name)
    requested = found.step(number)
    path = Path(file or found.file_name)
    is_new = create_if_missing(found.skeleton, path)
    saved = ""
    try:
        saved = save(path, parts)
    except NotLoadedError as error:
        card = Card(title_of(found, requested), CardState.REFUSED, f"{error}.")
    else:
        with progress_line(f"{name}, step {number}"):
            card = _run_step(found, requested, path, seeds)
    if is_new:
        saved = f"Created {path} for your code. {saved}".strip()
    if saved:
        card = replace(card, message=f"{saved}\n{card.message}")
    if must_pass is None:
        must_pass = must_pass_by_default()
    if must_pass and not card.passed:
        raise NotPassedError(card)
    return card


def begin(name: str, file: str | Path | None = None) -> Path:
    """Create the learner's file for the track `name` unless it exists; return its path.

    Raises `NoSuchStepError` for an unknown track, and `OSError` if the file cannot be created.
    """
    found = track(name)
    path = Path(file or found.file_name)
    create_if_missing(found.skeleton, path)
    return path


def step(name: str, number: int) -> Note:
    """Describe a step: its contract, what to write, the first test, and the cost limits.

    Raises `NoSuchStepError` for an unknown track or step.
    """
    requested = track(name).step(number)
    lines = [f"Always: {line.words}" for line in requested.contract]
    lines.append(f"Write {requested.write}")
    lines.append(f"The first test to pass:\n{requested.first_test.words}")
    lines += [
        f"The cost limit: {cost.name}, at most {cost.at_most:.2f} times labkit's own."
        for cost in requested.costs
    ]
    return Note(f"{track(name).title}, step {number}: {requested.name}", tuple(lines))


def hint(name: str, number: int) -> Note:
    """Return the next hint for a step. After the third hint, the third one is returned again.

    Raises `NoSuchStepError` for an unknown track or step.
    """
    requested = track(name).step(number)
    return next_hint(f"{name}, step {number}", requested.hints)


def _run_step(found: Track, step: Step, path: Path, seeds: int) -> Card:
    if CAN_FORK and not step.is_live:
        card: Card | Stopped | None = in_forked_copy(
            lambda timed: timed(),
            partial(_card_or_none, found, step, path, seeds),
            LIMIT_S,
            str(path),
        )
        if isinstance(card, Stopped):
            problem = _STOPPED[card.reason]
            message = f"{problem} {card.where}".strip() + "."
            return Card(title_of(found, step), CardState.REFUSED, message)
        if card is not None:
            return card
    return card_of(found, step, path, seeds)


def _card_or_none(found: Track, step: Step, path: Path, seeds: int) -> Card | None:
    """Return the step's card. If a trial itself raises an exception, return None, so that the
    parent process runs the trials again.
    """
    try:
        return card_of(found, step, path, seeds)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001
        return None


def card_of(
    found: Track, step: Step, path: Path, seeds: int = SEEDS, *, is_alone: bool = False
) -> Card:
    """Test the step in this process, where nothing can stop sleeping code.

    is_alone: whether to use labkit's own parts even for the steps before this one
    """
    title = title_of(found, step)
    try:
        learner = load(path, seeds)
    except NotImplementedError:
        return Card(title, CardState.OPEN, _how_to_begin(found, step))
    except NotLoadedError as error:
        return Card(title, CardState.REFUSED, f"{error}.")
    return _card(found, step, learner, is_alone)


def broken_lines(found: Track, step: Step, path: Path, seeds: int = SEEDS) -> list[str]:
    """Return the lines of the step's contract that the file breaks, in the contract's order.

    Unlike a check, which stops at the first test that fails, this function runs all tests, with
    labkit's own parts for the other steps. Raises `NotLoadedError` if the file cannot be loaded.
    """
    quick = (step.first_test.run, *step.quick_trials)
    broken = set[str]()
    for trial in (*quick, *step.slow_trials):
        # Load the file again, because the learner object keeps the first error that its parts
        # raised.
        learner = load(path, seeds)
        learner.parts = step.parts
        try:
            with instruction_limit(learner.module.__name__) if trial in quick else nullcontext():
                trial(learner)
            if learner.error is not None:
                raise learner.error
        except Refused as refused:
            broken.update(step.lines_in(_with_broken_line(step, refused)))
        except (RanTooLongError, SystemExit, Exception) as error:
            if not last_line_in(learner.file, error):
                raise
    return [line.words for line in step.contract if line.words in broken]


def _card(found: Track, step: Step, learner: Learner, is_alone: bool) -> Card:
    title = title_of(found, step)
    try:
        with instruction_limit(learner.module.__name__):
            _run_in_order(learner, step, 0, step.first_test.run)
            learner.parts = step.parts if is_alone else _parts_so_far(found, step, learner)
            for number, milestone in enumerate(step.milestones, 1):
                _run_in_order(learner, step, number, partial(_run_trial, trial=milestone.trial))
            report = [f"{CardState.PASSED} {milestone.name}" for milestone in step.milestones]
            report += [_run_trial(learner, trial) for trial in (*step.generated, *step.trials)]
        report += [_run_trial(learner, trial) for trial in step.slow_trials]
        report += [_check_cost(learner, cost) for cost in step.costs]
    except NotImplementedError:
        return Card(title, CardState.OPEN, _how_to_begin(found, step))
    except Refused as refused:
        return Card(
            title, CardState.REFUSED, _with_broken_line(step, refused), refused.counterexample
        )
    except (RanTooLongError, SystemExit, Exception) as error:
        where = last_line_in(learner.file, error)
        if not where:
            raise
        if isinstance(error, RanTooLongError):
            return Card(title, CardState.REFUSED, f"{ENDLESS} it was last in {where}.")
        return Card(title, CardState.REFUSED, raised_words(error, where))
    report += _more_storms(found, step, learner.seeds)
    report += [f"Challenge: {challenge}" for challenge in step.challenges]
    return Card(title, CardState.PASSED, "\n".join(report))


def title_of(found: Track, step: Step) -> str:
    return f"{found.name}, step {step.number}: {step.name}"


def _parts_so_far(found: Track, step: Step, learner: Learner) -> tuple[str, ...]:
    """Return the parts of this step and of all earlier steps that the learner has started. For each
    step that has not been started, add the functions that later parts call.
    """
    parts: tuple[str, ...] = step.parts
    for earlier in found.steps:
        if earlier.number < step.number:
            try:
                earlier.first_test.run(learner)
            except NotImplementedError:
                learner.error = None
                add_stand_ins(learner, found, earlier)
                continue
            except Refused as refused:
                raise _with_exact_line(learner, step, refused) from None
            parts += earlier.parts
    return parts


def _run_in_order(
    learner: Learner, step: Step, number: int, run: Callable[[Learner], object]
) -> None:
    """Run one test of a long step, which is either the first test (number 0) or a milestone. If the
    test fails, the message lists all of these tests and says which one to start with.
    """
    try:
        run(learner)
    except Refused as first:
        refused = _with_exact_line(learner, step, first)
        if not step.milestones:
            raise refused from None
        names = ["the first test", *(milestone.name for milestone in step.milestones)]
        signs = [CardState.PASSED] * number + [CardState.REFUSED]
        signs += [CardState.OPEN] * (len(names) - len(signs))
        lines = (f"{sign} {name}" for sign, name in zip(signs, names, strict=True))
        message = "\n".join((*lines, f"Start with {names[number]!r}.", refused.message))
        raise Refused(message, refused.counterexample) from None


def _with_exact_line(learner: Learner, step: Step, refused: Refused) -> Refused:
    """Return the refusal with that line of the contract which, according to the generated cases, is
    broken.

    A run of the whole client shows that something is wrong, but the line that it names may be
    broken only as a consequence of another mistake. If no generated case fails, the line that the
    run names is kept.
    """
    message = _with_broken_line(step, refused)
    learner.error = None
    try:
        for trial in step.generated:
            trial(learner)
    except Refused as exact:
        if exact.message not in message and step.lines_in(exact.message):
            message = f"{exact.message}\n{exact.counterexample}"
    except Exception as error:
        if not last_line_in(learner.file, error):
            raise
    return Refused(message, refused.counterexample)


def _with_broken_line(step: Step, refused: Refused) -> str:
    """Return the refusal's message. If it does not contain a line of the contract, put the violated
    line before the message.
    """
    found = refused.counterexample
    if step.lines_in(refused.message):
        return refused.message
    promise = ""
    if isinstance(found, RunCounterexample):
        promise = found.verdict.name
    elif isinstance(found, CrashCounterexample):
        promise = found.smallest.cell.verdict
    line = step.line_broken_by(promise)
    return refused.message if line is None else f"{line.words}\n{refused.message}"


def _more_storms(found: Track, step: Step, seeds: int) -> list[str]:
    """Return a note about the command that runs all seeds, unless all seeds have been run."""
    if not step.has_storms or seeds >= SEEDS:
        return []
    command = f"labkit workshop {found.name} {step.number}"
    return [f"This check ran {seeds} seeds; `{command}` in a terminal runs {SEEDS}."]


def _run_trial(learner: Learner, trial: Trial) -> str:
    report = trial(learner)
    if learner.error is not None:
        raise learner.error
    return report


def _check_cost(learner: Learner, cost: Cost) -> str:
    """Measure the cost, and return a description of it. Raises `Refused` if the cost exceeds the
    limit.
    """
    yours, ours = cost.measure(learner), cost.measure(None)
    ratio = yours / ours
    report = f"{cost.name}: {yours:.3g} with your parts, {ours:.3g} with labkit's"
    if ratio > cost.at_most:
        raise Refused(
            f"All promises hold, but the cost is too high. {report}: {ratio:.2f} times as much;"
            f" at most {cost.at_most:.2f} times is allowed."
        )
    return f"{report}: {ratio:.2f} times as much (at most {cost.at_most:.2f})."


def _how_to_begin(found: Track, step: Step) -> str:
    """Return the message for an open step, which tells the learner how to begin."""
    hints = f'hint("{found.name}", {step.number}) gives up to three hints.'
    return f"Write {step.write}\n{hints}\nThe first test to pass:\n{step.first_test.words}"
