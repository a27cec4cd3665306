"""submissions: what students handed in, found and read with bounds.

A stranger packed these folders: a name may be that of a pipe or a link, a folder may be deep, and a
file large.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.course.checking.record import FILE

MOST_NAMES = 20_000
"""Files and folders of one submission."""
MOST_FILES = 100
"""Notebooks of one submission, and records."""


class SubmissionsError(Exception):
    """The folders that are handed in cannot be graded as they are."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A student's notebooks, and the records of predictions and hints beside them.

    problem: why the folder cannot be graded, "" if it can.
    """

    student: str
    notebooks: tuple[Path, ...]
    records: tuple[Path, ...] = ()
    problem: str = ""


def submissions_of(places: list[Path]) -> list[Submission]:
    """The submission in each folder or notebook file, in alphabetical order of the students.

    A student's name is that of the folder, or of the file.  A folder can be without a notebook.
    Raises `SubmissionsError` for a place that does not exist, for a name that comes twice, and when
    no place has a notebook.
    """
    found: dict[str, Submission] = {}
    for place in places:
        if not os.path.lexists(place):
            raise SubmissionsError(f"there is no {place}")
        submission = _submission_in(place)
        if submission.student in found:
            raise SubmissionsError(
                f"two submissions are named {submission.student!r}: put each in its own folder"
            )
        found[submission.student] = submission
    if not any(each.notebooks or each.problem for each in found.values()):
        raise SubmissionsError(f"there is no notebook in {', '.join(map(str, places))}")
    return [found[student] for student in sorted(found)]


def _submission_in(place: Path) -> Submission:
    # The name of a link, not of its target, which can be another student's folder.
    named = Path(os.path.abspath(place))
    name = named.name if place.is_dir() else named.stem
    # A folder's name need not be UTF-8, as the reports are.
    empty = Submission(os.fsencode(name).decode("utf-8", "backslashreplace"), ())
    if not place.is_dir():
        return replace(empty, notebooks=(place,))
    notebooks, records = [], []
    try:
        for file in _files_below(place):
            if file.suffix == ".ipynb":
                notebooks.append(file)
            elif file.name == FILE:
                records.append(file)
    except (OSError, ValueError) as error:
        return replace(empty, problem=f"The folder cannot be read: {error}.")
    if max(len(notebooks), len(records)) > MOST_FILES:
        return replace(empty, problem=f"There are more than {MOST_FILES} notebooks or records.")
    return replace(empty, notebooks=tuple(sorted(notebooks)), records=tuple(sorted(records)))


def _files_below(folder: Path) -> Iterator[Path]:
    """All files, without the old copies that JupyterLab keeps of notebooks; no link is followed.

    Raises OSError, and ValueError if there are too many.
    """
    folders, seen = [folder], 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                seen += 1
                if seen > MOST_NAMES:
                    raise ValueError(f"it has more than {MOST_NAMES:,} files and folders")
                if not entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)
                elif entry.name != ".ipynb_checkpoints":
                    folders.append(Path(entry.path))


def read_regular(file: Path, most_bytes: int) -> bytes:
    """Return all bytes of a regular file.

    Raises ValueError for anything else, such as a link or a pipe, and for a larger file, and
    OSError.
    """
    if not stat.S_ISREG(os.lstat(file).st_mode):
        raise ValueError("it is a link, or no regular file")
    # If the file was replaced since, do not follow a link and do not wait for a pipe.
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        data = opened.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes >> 20} MB")
    return data
