"""Defines the arguments of `labkit grade`, `labkit handout` and `labkit inventory`, in a module
that can be imported quickly.
"""

import argparse
import math
from datetime import datetime
from pathlib import Path


def add_grade(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        "grade",
        help="grade a class's notebooks, each in a sandbox",
        description="Grade the exercises in students' notebooks, and the steps in their mybookie.py"
        " and myclient.py. Each submission runs in a sandbox"
        " (bubblewrap, on Linux) without network access. Prints a line for each exercise, and"
        " writes a page for each student, the class's grades (CSV and a page), Parquet files and a"
        " notebook about the class. Earlier results in the folder of the reports are kept, except"
        " those that are graded again. If it is interrupted, run the same command again to resume.",
    )
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="folder or notebook of one student, named after the student",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("grades"),
        metavar="FOLDER",
        help="folder for the reports (default: grades)",
    )
    parser.add_argument(
        "--students",
        type=Path,
        metavar="FILE",
        help="file with one student's name per line, or a CSV file with the columns student, id and"
        " handed_in; the grades then include those who handed in nothing",
    )
    parser.add_argument(
        "--points",
        type=Path,
        metavar="FILE",
        help="CSV file with the columns exercise, points and attempted, which are the points for a"
        " refused answer (default: one point per exercise)",
    )
    parser.add_argument(
        "--deadline",
        type=_deadline,
        metavar="TIME",
        help="mark submissions whose notebooks were changed after this time, for example"
        " 2026-12-01T18:00, or whose handed_in is later",
    )
    parser.add_argument(
        "--feedback",
        action="store_true",
        help="also write each student's page beside the submission, as feedback.html",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=20.0,
        metavar="S",
        help="processor time that a student's function may use in one exercise (default: 20)",
    )
    parser.add_argument(
        "--jobs",
        type=_jobs,
        metavar="N",
        help="number of submissions to grade at the same time (default: all processors but one;"
        " with --spark, two)",
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help="grade on Spark: on SPARK_MASTER or SPARK_REMOTE if set, otherwise on two processors"
        " of this machine",
    )
    parser.add_argument(
        "--without-sandbox",
        action="store_true",
        help="run the submissions without a sandbox; use this only for code that you trust",
    )
    return parser


def add_handout(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        "handout",
        help="write a class's notebooks, without solutions",
        description="Write the lessons' notebooks for a class, without solutions or outputs. With"
        " --students, each student gets a variant with other numbers, names and faults but the same"
        " difficulty. Existing files with different contents are never overwritten.",
    )
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="folder in which to write the notebooks"
    )
    parser.add_argument(
        "lessons",
        nargs="*",
        metavar="LESSON",
        help="number of a lesson, for example 05 (default: all lessons)",
    )
    recipients = parser.add_mutually_exclusive_group()
    recipients.add_argument(
        "--students",
        type=Path,
        metavar="FILE",
        help="file with one student's name per line; writes a folder with a variant for each"
        " (default: one set of notebooks with the lessons' own numbers)",
    )
    recipients.add_argument(
        "--seed",
        type=_seed,
        action="append",
        metavar="N",
        help="write a folder with the variant of this seed; can be repeated",
    )
    recipients.add_argument(
        "--nbgrader",
        action="store_true",
        help="treat FOLDER as an nbgrader course: write the source notebooks of its assignments,"
        " with solutions",
    )
    return parser


def add_inventory(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        "inventory",
        help="answer 20 questions about common misconceptions",
        description="Ask 20 questions about common misconceptions, before or after the course."
        " Right answers are not shown. At the end, your answers are saved in this folder if you"
        " agree; `labkit grade` evaluates those that are handed in.",
    )
    parser.add_argument(
        "when", choices=("before", "after"), help="whether you have taken the course yet"
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        metavar="N",
        help="seed of the numbers in the questions (default: a random one)",
    )
    return parser


def _seed(text: str) -> int:
    if not 1 <= (seed := int(text)) < 2**31:
        raise argparse.ArgumentTypeError(f"the seed must be between 1 and {2**31 - 1}, got {text}")
    return seed


def _seconds(text: str) -> float:
    if not 0 < (seconds := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"the limit must be greater than 0, got {text}")
    return seconds


def _deadline(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"the deadline must be a time such as 2026-12-01T18:00, got {text}"
        ) from None


def _jobs(text: str) -> int:
    if (jobs := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"the number of jobs must be at least 1, got {text}")
    return jobs
