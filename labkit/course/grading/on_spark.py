"""Grades submissions on Spark, each in a task of its own, in the same kind of sandbox as on this
machine.

Each task is a Spark job of its own, so the results of a submission arrive as soon as it has been
graded. If an executor or a Python worker dies, only the submissions that it was grading are
affected.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from labkit.course.grading.isolation.sandbox import Limits
from labkit.course.grading.processes import Graded, grade
from labkit.course.grading.results import NOT_GRADED, WHOLE, Result
from labkit.course.grading.submissions import Submission

_ATTEMPTS = 2
"""How many times grading a submission is attempted if its task fails. A cluster also repeats tasks
by itself.
"""


def grade_all_on_spark(
    spark: SparkSession, submissions: list[Submission], limits: Limits, jobs: int
) -> Iterator[Graded]:
    """Yield the outcomes as submissions are graded, `jobs` at a time.

    The executors must be able to read the submissions under the same paths as this process.
    """
    work = partial(_grade_in_task, spark, limits=limits)
    with ThreadPoolExecutor(jobs) as threads:
        waiting = [threads.submit(work, each) for each in submissions]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for each in waiting:
                each.cancel()


def _grade_in_task(spark: SparkSession, submission: Submission, limits: Limits) -> Graded:
    task = partial(grade_in_executor, submission, limits)
    job = spark.range(0, 1, 1, 1).mapInArrow(task, "graded string")
    failure: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            [row] = job.collect()
        except (PySparkException, Py4JError) as error:
            failure = error
        else:
            return Graded.restored(submission, json.loads(row["graded"]))
    why = f"The Spark task that graded this submission failed {_ATTEMPTS} times: {failure}"
    result = Result.bounded(
        student=submission.student, exercise=WHOLE, outcome=NOT_GRADED, message=why
    )
    return Graded(submission, [result])


def grade_in_executor(
    submission: Submission, limits: Limits, _: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    stored = grade(submission, limits).stored()
    yield pa.RecordBatch.from_pydict({"graded": [json.dumps(stored)]})
