"""Keeps a learner's state in the kernel, namely the hints taken and the predictions made.

The state is lost when the kernel stops, unless the learner has turned on recording (`record`).
"""

from labkit.course.checking.card import Note
from labkit.course.checking.exercise import HINT_COUNT, find
from labkit.course.checking.parameters import started_lesson
from labkit.course.checking.record import append_record
from labkit.course.predictions.prediction import as_tuple, predictions_of

_hints_taken: dict[str, int] = {}
_predictions: dict[str, object] = {}


def hint(name: str) -> Note:
    """Return the next hint for an exercise. After the third hint, return the third one again.

    Raises `NoSuchExerciseError` for an unknown name.
    """
    return next_hint(name, find(name).hints)


def next_hint(name: str, hints: tuple[str, ...]) -> Note:
    """Return the next hint for an exercise or for a step of the workshop."""
    taken = min(_hints_taken.get(name, 0) + 1, HINT_COUNT)
    _hints_taken[name] = taken
    append_record(event="hint", name=name, hint=taken)
    return Note(f"Hint {taken} of {HINT_COUNT} for {name}", (hints[taken - 1],))


def predict(name: str, value: object) -> Note:
    """Record the value that the learner expects the code to produce; None means no prediction."""
    if value is None:
        return Note(f"No prediction yet: {name}", ("Replace None with your prediction.",))
    _predictions[name] = value
    append_record(event="predicted", name=name, predicted=repr(value))
    return Note(f"Your prediction is kept: {name}", (repr(value),))


def compare(name: str, truth: object) -> Note:
    """Show the prediction next to the true value and, if it is wrong, explain why."""
    if name not in _predictions:
        return Note(f"Not predicted: {name}", (f"it is {truth!r}",))
    predicted = _predictions[name]
    is_right = bool(as_tuple(predicted) == as_tuple(truth))
    noted = {"predicted": repr(predicted), "truth": repr(truth), "is_right": is_right}
    append_record(event="compared", name=name, **noted)
    verdict = "As predicted" if is_right else "Not as predicted"
    why = () if is_right else _why_not(name, predicted)
    return Note(f"{verdict}: {name}", (f"predicted {predicted!r}", f"it is     {truth!r}", *why))


def _why_not(name: str, predicted: object) -> tuple[str, ...]:
    lesson, values = started_lesson()
    prediction = predictions_of(lesson).get(name)
    return () if prediction is None else (prediction.why_not(predicted, values),)
