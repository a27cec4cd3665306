"""`labkit grade FOLDER...` and `labkit handout FOLDER [LESSON...]`."""

import argparse
import os
from collections.abc import Callable

from labkit import __version__
from labkit.course.grading.handout import (
    hand_out,
    hand_out_to_nbgrader,
    lesson_sources,
    students_in,
)
from labkit.course.grading.isolation.sandbox import Limits, require_sandbox
from labkit.course.grading.processes import grade_all
from labkit.course.grading.report import pages_of, table, write, write_page
from labkit.course.grading.submissions import submissions_of
from labkit.course.grading.unfinished import UnfinishedRun
from labkit.worlds.live.host.printable import printable


def run_grade(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Grade the submissions, say how each went, and write the reports.

    Raises `MissingPart` where there is no sandbox, `SubmissionsError` for folders that cannot be
    graded, and OSError where the reports cannot be written.
    """
    is_shut_in = not arguments.without_sandbox
    if is_shut_in:
        require_sandbox()
    submissions = submissions_of(arguments.folders)
    limits = Limits(exercise_s=arguments.seconds)
    run = UnfinishedRun(arguments.out, f"{__version__} {limits} {is_shut_in}")
    pages = pages_of([each.student for each in submissions], arguments.out)
    done = {each: found for each in submissions if (found := run.graded(each)) is not None}
    if done:
        say(f"an interrupted run graded {len(done)} of {len(submissions)} submissions; resuming")
    rest = [each for each in submissions if each not in done]
    for graded in grade_all(rest, limits, is_shut_in, arguments.jobs or os.cpu_count() or 1):
        say("\n".join([table(graded.results), *map(printable, graded.problems)]))
        write_page(graded.submission.student, graded.results, pages[graded.submission.student])
        done[graded.submission] = run.keep(graded)
    every = [done[submission] for submission in submissions]
    results = [result for graded in every for result in graded.results]
    write(results, [row for graded in every for row in graded.rows], arguments.out)
    run.finish()
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
