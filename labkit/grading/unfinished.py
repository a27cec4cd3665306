"""unfinished: what a run has graded so far, so that a second run continues where it stopped.

A file for each submission in the folder of the reports, until the run comes to its end.
"""

import json
import shutil
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

from labkit.files import put_whole
from labkit.grading.processes import Graded
from labkit.grading.results import NOT_GRADED, Result
from labkit.grading.submissions import Submission


class UnfinishedRun:
    """The submissions that are graded already under these settings, in words."""

    def __init__(self, folder: Path, settings: str) -> None:
        self._folder = folder / "unfinished"
        self._settings = settings

    def graded(self, submission: Submission) -> Graded | None:
        """What came of the submission.  None: it is not graded yet, or has changed since."""
        try:
            stored = json.loads(self._file(submission).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if stored["of"] != self._state_of(submission):
            return None
        results = [Result(**each) for each in stored["results"]]
        return Graded(submission, results, stored["rows"], stored["problems"])

    def keep(self, graded: Graded) -> Graded:
        """Store it without its pictures, which the student's page has, and return it like that.

        What was not graded is tried again.  Raises OSError.
        """
        graded = replace(graded, results=[replace(each, picture="") for each in graded.results])
        if all(each.outcome != NOT_GRADED for each in graded.results):
            stored = {
                "of": self._state_of(graded.submission),
                "results": [asdict(each) for each in graded.results],
                "rows": graded.rows,
                "problems": graded.problems,
            }
            put_whole(self._file(graded.submission), json.dumps(stored).encode())
        return graded

    def finish(self) -> None:
        """The reports are written: the next run begins anew.  Raises OSError."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, submission: Submission) -> Path:
        return self._folder / f"{sha256(submission.student.encode()).hexdigest()}.json"

    def _state_of(self, submission: Submission) -> list[str]:
        states = [self._settings, submission.problem]
        for file in (*submission.notebooks, *submission.records):
            try:
                found = file.lstat()
            except OSError as error:
                # Such as a folder that may be listed and not entered.
                states.append(f"{file} {error}")
            else:
                states.append(f"{file} {found.st_size} {found.st_mtime_ns}")
        return states
