"""`labkit grade FOLDER...`."""

import argparse
import os
from collections.abc import Callable
from typing import Any

from labkit.grading.grade import Result, grade_all, submissions_of
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
