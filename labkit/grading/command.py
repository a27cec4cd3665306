"""`labkit grade FOLDER...` and `labkit handout FOLDER [LESSON...]`."""

import argparse
import os
from collections.abc import Callable
from typing import Any

from labkit.grading.grade import Result, grade_all, submissions_of
from labkit.grading.handout import (
    hand_out,
    hand_out_to_nbgrader,
    lesson_sources,
    students_in,
)
from labkit.grading.records import rows_of
from labkit.grading.report import table, write
from labkit.grading.sandbox import Limits, require_sandbox


def run_grade(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Grade the submissions, say how each went, and write the reports.

    Raises `MissingPart` where there is no sandbox, `SubmissionsError` for folders that cannot be
    graded, and OSError where the reports cannot be written.
    """
    if not arguments.without_sandbox:
        require_sandbox()
    submissions = submissions_of(arguments.folders)
    arguments.out.mkdir(parents=True, exist_ok=True)
    limits = Limits(exercise_s=arguments.seconds)
    jobs = arguments.jobs or os.cpu_count() or 1
    results: list[Result] = []
    for own in grade_all(submissions, limits, not arguments.without_sandbox, jobs):
        say(table(own))
        results += own
    noted: list[dict[str, Any]] = []
    for submission in submissions:
        rows, problems = rows_of(submission.student, submission.records)
        noted += rows
        for problem in problems:
            say(problem)
    write(results, noted, arguments.out)
    say(f"\n{len(submissions)} submissions; the reports are in {arguments.out}")


def run_handout(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Write the notebooks and say who has which variant.

    Raises `HandoutError` for what cannot be handed out, and OSError.
    """
    sources = lesson_sources(arguments.lessons).values()
    if arguments.nbgrader:
        for name in hand_out_to_nbgrader(arguments.folder, sources):
            say(f"next: nbgrader generate_assignment {name}")
        return
    students = students_in(arguments.students) if arguments.students else []
    for name, seed in hand_out(arguments.folder, sources, students, arguments.seed or ()).items():
        variant = "with the lessons' own numbers" if seed is None else f"variant {seed}"
        say(f"{arguments.folder / name}: {variant}")
