"""`labkit workshop bookie|client [STEP]`: the same checks as in a notebook, from a terminal."""

import argparse
from collections.abc import Callable

from labkit.course.workshop.check import check
from labkit.course.workshop.step import track


def run_workshop(arguments: argparse.Namespace, say: Callable[[str], None]) -> bool:
    """Check one step, or all up to the first that is not passed; say what the cards say, and return
    whether all that were asked for are passed.

    Raises `NoSuchStepError` for a step that does not exist, and `OSError` where the learner's file
    cannot be made.
    """
    steps = track(arguments.track).steps
    numbers = [step.number for step in steps] if arguments.step is None else [arguments.step]
    for number in numbers:
        card = check(arguments.track, number, arguments.file, must_pass=False)
        say(repr(card))
        if not card.passed:
            return False
    return True
