"""Runs one sitting, in which a student answers all questions on the terminal.

The answers are saved only if the student agrees at the end. They are saved in a single file in the
working directory, with one line per sitting. The answers are letters, so neither the file nor the
terminal shows which ones are right.

    {"event": "inventory", "when": "before", "seed": 7, "answers": {"power_cut": "b", ...}}

If a student hands the file in, `labkit grade` counts the answers.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import SystemRandom
from textwrap import fill
from typing import Any

from labkit.course.inventory.question import LETTERS
from labkit.course.inventory.questions import QUESTIONS

FILE = "my-inventory.jsonl"
BEFORE, AFTER = "before", "after"
MAX_SEED = 2**31 - 1
_WIDTH = 80
_TERMS = (
    "Some words: a *bookie* is a storage server. A *ledger* is a list of *entries*; each entry is"
    " stored on several bookies. A ledger's *writer* adds entries, and a bookie that has stored an"
    " entry sends an *acknowledgement*. To *sync* a file is the system call `fsync`. A bookie"
    " writes entries to its *journal* first, and later, in a *flush* or *checkpoint*, to an *entry"
    " log*. *Recovery* closes a ledger whose writer seems to be dead, and *autorecovery* copies the"
    " entries of lost bookies. A *topic* stores its messages in ledgers, and can have several"
    " *partitions*; a *consumer* receives the messages through a *subscription*."
)
"""Definitions of terms. None of them may give away an answer."""
RIGHT, NO_ANSWER = "right", "no answer"

Answers = Mapping[str, str]


def run_inventory(
    arguments: argparse.Namespace, say: Callable[[str], None], ask: Callable[[str], str]
) -> None:
    """Ask all questions, and save the answers if the student agrees.

    Raises EOFError if the input ends before the last question, and OSError if the answers cannot be
    saved.
    """
    seed = arguments.seed or SystemRandom().randint(1, MAX_SEED)
    say(
        f"{len(QUESTIONS)} questions. Type the letter of your answer, or press Enter if you do not"
        " know. You will not see which answers are right.\n"
    )
    say(fill(_TERMS, _WIDTH))
    answers = {}
    for number, question in enumerate(QUESTIONS, 1):
        text, options = question.drawn(seed)
        letters = LETTERS[: len(options)]
        say("\n" + fill(f"{number}. {text}", _WIDTH, subsequent_indent="   "))
        for letter, option in zip(letters, options, strict=True):
            say(f"   {letter}  {option.text}")
        answers[question.name] = _letter(letters, say, ask)
    say(f"\nYour answers can help your teacher if you hand in the file {FILE}.")
    if ask(f"Save them in {FILE}, without your name? [y/N] ").strip().lower() not in ("y", "yes"):
        say("Nothing was saved.")
        return
    line = {"event": "inventory", "when": arguments.when, "seed": seed, "answers": answers}
    with Path(FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    say(f"Your answers are in {FILE}. Delete the file if you change your mind.")


def _letter(letters: str, say: Callable[[str], None], ask: Callable[[str], str]) -> str:
    while (letter := ask("> ").strip().lower()) and (len(letter) > 1 or letter not in letters):
        say(f"Type one of {', '.join(letters)}, or press Enter.")
    return letter


def is_sitting(noted: Mapping[str, Any]) -> bool:
    """Return whether this value from a student's file is a well-formed record of a sitting."""
    answers = noted.get("answers")
    return (
        noted.get("when") in (BEFORE, AFTER)
        and type(noted.get("seed")) is int
        and 1 <= noted["seed"] <= MAX_SEED
        and isinstance(answers, dict)
        and all(answers.get(question.name, "") in ("", *LETTERS) for question in QUESTIONS)
    )


def judged(seed: int, answers: Answers) -> Iterator[tuple[str, str]]:
    """Yield the name of each question, and `RIGHT`, `NO_ANSWER` or the belief behind the answer."""
    for question in QUESTIONS:
        _, options = question.drawn(seed)
        chosen = dict(zip(LETTERS, options, strict=False)).get(answers.get(question.name, ""))
        yield question.name, NO_ANSWER if chosen is None else chosen.belief or RIGHT
