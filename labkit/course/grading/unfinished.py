"""Keeps the results of an interrupted run, so that the next run can resume.

Until the run completes, the report folder contains one file per graded submission.
"""

import json
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from labkit.course.grading.processes import Graded
from labkit.course.grading.results import NOT_GRADED
from labkit.course.grading.submissions import Submission
from labkit.shipped_files import put_whole


class UnfinishedRun:
    """Stores the results of the submissions that have been graded with these settings."""

    def __init__(self, folder: Path, settings: str) -> None:
        self._folder = folder / "unfinished"
        self._settings = settings

    def graded(self, submission: Submission) -> Graded | None:
        """Return the stored outcome, or None if no outcome is stored or the submission has changed
        since.
        """
        try:
            stored = json.loads(self._file(submission).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if stored["of"] != self._state_of(submission):
            return None
        return Graded.restored(submission, stored)

    def keep(self, graded: Graded) -> Graded:
        """Store the outcome, and return it without its pictures, which are shown on the student's
        page.

        If one of the exercises was not graded, the outcome is not stored, so the next run grades
        the submission again. Raises `OSError` if the outcome cannot be stored.
        """
        graded = replace(graded, results=[replace(each, picture="") for each in graded.results])
        if all(each.outcome != NOT_GRADED for each in graded.results):
            stored = {"of": self._state_of(graded.submission), **graded.stored()}
            put_whole(self._file(graded.submission), json.dumps(stored).encode())
        return graded

    def finish(self) -> None:
        """Delete the stored results; call this after the reports have been written."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, submission: Submission) -> Path:
        return self._folder / f"{sha256(submission.student.encode()).hexdigest()}.json"

    def _state_of(self, submission: Submission) -> list[str]:
        states = [self._settings, submission.problem]
        for file in (*submission.answers, *submission.records):
            try:
                found = file.lstat()
            except OSError as error:
                # This happens, for example, if a folder can be listed but not entered.
                states.append(f"{file} {error}")
            else:
                states.append(f"{file} {found.st_size} {found.st_mtime_ns}")
        return states
