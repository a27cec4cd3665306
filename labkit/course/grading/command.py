"""Runs the commands `labkit grade FOLDER...` and `labkit handout FOLDER [LESSON...]`."""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from labkit import __version__
from labkit.course.grading.class_list import Student, read_class_list
from labkit.course.grading.handout import lesson_sources, write_handout, write_nbgrader_handout
from labkit.course.grading.isolation.sandbox import Limits, require_sandbox
from labkit.course.grading.processes import Graded, grade_all
from labkit.course.grading.reports.class_page import write_class_page
from labkit.course.grading.reports.gradebook import Gradebook, read_points, write_grades
from labkit.course.grading.reports.report import page_of, passed_before, table, write, write_page
from labkit.course.grading.results import NOT_GRADED
from labkit.course.grading.submissions import Submission, handed_in_at, submissions_of
from labkit.course.grading.unfinished import UnfinishedRun
from labkit.shipped_files import put_whole
from labkit.worlds.live.host.printable import printable

_JOBS_ON_SPARK = 2


def run_grade(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Grade the submissions, print the results, and write the reports.

    Raises `MissingPart` if no sandbox is available, `SubmissionsError` if the folders cannot be
    graded, `PointsError` if the list of points is not valid, `ClassListError` if the list of
    students is not valid, and `OSError` if the reports cannot be written.
    """
    points = read_points(arguments.points) if arguments.points else None
    students = read_class_list(arguments.students) if arguments.students else {}
    limits = Limits(exercise_s=arguments.seconds, is_sandboxed=not arguments.without_sandbox)
    if limits.is_sandboxed and not arguments.spark:
        require_sandbox()
    submissions = submissions_of(arguments.folders)
    run = UnfinishedRun(arguments.out, f"{__version__} {limits}")
    passed = passed_before(arguments.out)
    done = {each: found for each in submissions if (found := run.graded(each)) is not None}
    if done:
        say(f"an interrupted run graded {len(done)} of {len(submissions)} submissions; resuming")
    rest = [each for each in submissions if each not in done]
    for graded in _grade(rest, limits, arguments):
        say("\n".join([table(graded.results), *map(printable, graded.problems)]))
        student = graded.submission.student
        shown = [
            passed.get((student, each.exercise), each) if each.outcome == NOT_GRADED else each
            for each in graded.results
        ]
        write_page(student, shown, page_of(student, arguments.out))
        done[graded.submission] = run.keep(graded)
    every = [done[submission] for submission in submissions]
    results = []
    for graded in every:
        submission = graded.submission
        listed = students.get(submission.student, Student(submission.student)).handed_in
        handed_in = listed or handed_in_at(submission)
        is_late = arguments.deadline is not None and handed_in > arguments.deadline
        results += [replace(result, late=is_late) for result in graded.results]
    noted = [row for graded in every for row in graded.rows]
    results, noted = write(results, noted, arguments.out, datetime.now(UTC))
    book = Gradebook.of(results, points, students)
    write_grades(book, arguments.out)
    write_class_page(book, results, noted, arguments.out)
    if arguments.feedback:
        for each in submissions:
            try:
                put_whole(each.feedback, page_of(each.student, arguments.out).read_bytes())
            except OSError as error:
                # A student can prevent this, for example with a folder of this name.
                say(printable(f"{each.student}: cannot write the page there: {error}"))
    run.finish()
    say(f"\n{len(submissions)} submissions; the reports are in {arguments.out}")


def _grade(
    submissions: list[Submission], limits: Limits, arguments: argparse.Namespace
) -> Iterator[Graded]:
    if arguments.spark:
        # Imported here because importing Spark is slow.
        from labkit.views.spark.session import spark_session  # noqa: PLC0415

        spark = spark_session("labkit grade")
        from labkit.course.grading.on_spark import grade_all_on_spark  # noqa: PLC0415

        jobs = arguments.jobs or _JOBS_ON_SPARK
        return grade_all_on_spark(spark, submissions, limits, jobs)
    jobs = arguments.jobs or max(1, (os.cpu_count() or 1) - 1)
    return grade_all(submissions, limits, jobs)


def run_handout(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Write the notebooks, and print which folder contains which variant.

    Raises `ClassListError` if the list of students is not valid, and `HandoutError` or `OSError` if
    the handout cannot be written.
    """
    sources = lesson_sources(arguments.lessons).values()
    if arguments.nbgrader:
        for name in write_nbgrader_handout(arguments.folder, sources):
            say(f"next: nbgrader generate_assignment {name}")
        return
    students = read_class_list(arguments.students) if arguments.students else {}
    for name, seed in write_handout(
        arguments.folder, sources, students, arguments.seed or ()
    ).items():
        variant = "with the lessons' own numbers" if seed is None else f"variant {seed}"
        say(f"{arguments.folder / name}: {variant}")
