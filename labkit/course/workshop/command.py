"""Runs the command `labkit workshop bookie|client [STEP]`, which makes the notebook's checks
available in a terminal.
"""

import argparse
from collections.abc import Callable

from labkit.course.workshop.step_check import check
from labkit.course.workshop.tracks import track


def run_workshop(arguments: argparse.Namespace, say: Callable[[str], None]) -> bool:
    """Check one step, or all steps up to the first one that fails, and print the cards.

    Returns whether all requested steps have been passed. Raises `NoSuchStepError` for an unknown
    step, and `OSError` if the learner's file cannot be created.
    """
    steps = track(arguments.track).steps
    numbers = [step.number for step in steps] if arguments.step is None else [arguments.step]
    for number in numbers:
        card = check(arguments.track, number, arguments.file, must_pass=False)
        say(repr(card))
        if not card.passed:
            return False
    return True
