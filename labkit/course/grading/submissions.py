"""Finds and reads the files that students handed in, within limits.

The folders are untrusted: what looks like a file may be a pipe or a link, folders may be deeply
nested, and a file may be huge.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from labkit.course.checking import record
from labkit.course.inventory import sitting
from labkit.course.workshop.tracks import TRACK_FILES
from labkit.system.model.errors import LabkitError

MAX_NAMES = 20_000
"""Limit on the number of files and folders in one submission."""
MAX_FILES = 100
"""Limit on the number of files of each kind in one submission."""


class SubmissionsError(LabkitError):
    """Raised if the given folders cannot be graded as they are."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A student's notebooks and workshop files, together with the records of predictions, hints,
    and answers to the concept inventory.

    workshop_files: `mybookie.py` and `myclient.py`; problem: why the folder cannot be graded, or
    ""; feedback: the path at which the student finds the page about the submission.
    """

    student: str
    feedback: Path
    notebooks: tuple[Path, ...] = ()
    workshop_files: tuple[Path, ...] = ()
    records: tuple[Path, ...] = ()
    problem: str = ""

    @property
    def answers(self) -> tuple[Path, ...]:
        """The files to be graded."""
        return self.notebooks + self.workshop_files


def submissions_of(paths: list[Path]) -> list[Submission]:
    """Return the submissions in these folders and notebook files, sorted by student.

    A student's name is taken from the name of the folder, or from the notebook's file name without
    its suffix. A folder may be empty. Raises `SubmissionsError` if a path does not exist, if two
    submissions have the same name, or if none of the paths contains anything to grade.
    """
    found: dict[str, Submission] = {}
    for path in paths:
        if not os.path.lexists(path):
            raise SubmissionsError(f"{path} does not exist")
        submission = _submission_in(path)
        if submission.student in found:
            raise SubmissionsError(
                f"two submissions are named {submission.student!r}: put each in its own folder"
            )
        found[submission.student] = submission
    if not any(each.answers or each.problem for each in found.values()):
        names = " or ".join(TRACK_FILES.values())
        raise SubmissionsError(f"there is no notebook, {names} in {', '.join(map(str, paths))}")
    return [found[student] for student in sorted(found)]


def handed_in_at(submission: Submission) -> datetime:
    """Return the latest modification time of the answers, or a time in 1970 if there are no
    answers.
    """
    changed_s = [each.lstat().st_mtime for each in submission.answers if os.path.lexists(each)]
    return datetime.fromtimestamp(max(changed_s, default=0), UTC)


def _submission_in(path: Path) -> Submission:
    # Use the name of a link, not of its target, which can be another student's folder.
    absolute = Path(os.path.abspath(path))
    name = absolute.name if path.is_dir() else absolute.stem
    # A folder's name might not be valid UTF-8, but the reports are UTF-8.
    student = os.fsencode(name).decode("utf-8", "backslashreplace")
    empty = Submission(student, path / "feedback.html")
    if not path.is_dir():
        feedback = path.with_name(f"{path.stem}-feedback.html")
        if path.name in TRACK_FILES.values():
            return replace(empty, feedback=feedback, workshop_files=(path,))
        return replace(empty, feedback=feedback, notebooks=(path,))
    notebooks, workshop_files, records = [], [], []
    try:
        for file in _files_below(path):
            if file.suffix == ".ipynb":
                notebooks.append(file)
            elif file.name in TRACK_FILES.values():
                workshop_files.append(file)
            elif file.name in (record.FILE, sitting.FILE):
                records.append(file)
    except (OSError, ValueError) as error:
        return replace(empty, problem=f"The folder cannot be read: {error}.")
    if max(map(len, (notebooks, workshop_files, records))) > MAX_FILES:
        return replace(empty, problem=f"There are more than {MAX_FILES} files of the same kind.")
    return replace(
        empty,
        notebooks=tuple(sorted(notebooks)),
        workshop_files=tuple(sorted(workshop_files)),
        records=tuple(sorted(records)),
    )


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield all files except JupyterLab's checkpoint copies, without following links.

    Raises `ValueError` if there are too many files and folders, and `OSError` if a folder cannot be
    read.
    """
    folders, count = [folder], 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                count += 1
                if count > MAX_NAMES:
                    raise ValueError(f"it has more than {MAX_NAMES:,} files and folders")
                if not entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)
                elif entry.name != ".ipynb_checkpoints":
                    folders.append(Path(entry.path))


def read_regular(file: Path, max_bytes: int) -> bytes:
    """Return the contents of a regular file.

    Raises `ValueError` if the file is larger than `max_bytes`, or if it is not a regular file but,
    for example, a link or a pipe. Raises `OSError` if it cannot be read.
    """
    if not stat.S_ISREG(os.lstat(file).st_mode):
        raise ValueError("it is not a regular file")
    # The file may have been replaced in the meantime, so do not follow links or wait for a pipe.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        data = opened.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"it is larger than {max_bytes >> 20} MB")
    return data
