"""The arguments of `labkit grade` and `labkit handout`, apart from what needs time to import."""

import argparse
import math
from pathlib import Path


def add_grade(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Add the verb and its arguments; returns the verb's parser."""
    parser = verbs.add_parser("grade", help="judge a class's notebooks, each in a sandbox")
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="FOLDER", help="a student's folder or notebook"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("grades"), help="for the reports (default: grades)"
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=20.0, help="limit of a function (default: 20)"
    )
    parser.add_argument(
        "--jobs", type=_jobs, help="submissions at a time (default: one per processor)"
    )
    parser.add_argument(
        "--without-sandbox", action="store_true", help="run code that you trust, not shut in"
    )
    return parser


def add_handout(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    """Add the verb and its arguments; returns the verb's parser."""
    parser = verbs.add_parser("handout", help="write a class's notebooks, without solutions")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write them")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="such as 05 (default: all)")
    whom = parser.add_mutually_exclusive_group()
    whom.add_argument(
        "--students",
        type=Path,
        metavar="FILE",
        help="a name in each line: a folder and a variant for each (default: no variant)",
    )
    whom.add_argument(
        "--seed",
        type=_seed,
        action="append",
        metavar="N",
        help="a folder with this variant; may be repeated",
    )
    whom.add_argument(
        "--nbgrader",
        action="store_true",
        help="FOLDER is a course of nbgrader: write the assignments' sources, with solutions",
    )
    return parser


def _seed(text: str) -> int:
    if not 1 <= (seed := int(text)) < 2**31:
        raise argparse.ArgumentTypeError(f"{text} cannot be a seed: give 1 to {2**31 - 1}")
    return seed


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a limit: give a number above 0")
    return seconds


def _jobs(text: str) -> int:
    if (jobs := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} processes grade nothing: give 1 or more")
    return jobs
