"""handout: the learner's notebooks as a teacher gives them out.

    source -> without solutions, not run -> one for each student, or one for nbgrader

The same seed gives the same bytes.  Nothing that exists is written over: it may be a student's
work.
"""

from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4.nbbase import new_code_cell

from labkit.course.grading.nbgrader_cells import has_exercises, with_nbgrader
from labkit.course.grading.variants import TAG, cell_of, seed_of, values_of
from labkit.course.lessons.build import SOURCES, notebook_name, parse
from labkit.shipped_files import put_whole


class HandoutError(Exception):
    """What is asked for cannot be handed out: an unknown lesson, a bad name, a file in the way."""


def lesson_sources(numbers: Iterable[str]) -> dict[str, Path]:
    """The sources of these lessons ("05"), or of all.  Raises `HandoutError` for an unknown one."""
    every = {each.stem[:2]: each for each in sorted(SOURCES.glob("[0-9][0-9]_*.py"))}
    chosen = list(numbers) or list(every)
    for number in chosen:
        if number not in every:
            raise HandoutError(f"there is no lesson {number}: the lessons are {', '.join(every)}")
    return {number: every[number] for number in chosen}


def students_in(file: Path) -> list[str]:
    """The names in a file, one a line.  Raises `HandoutError` for one that cannot be a folder's,
    for one that comes twice and for a file that is not UTF-8, and OSError.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise HandoutError(f"{file} is not UTF-8: save it in this encoding ({error})") from None
    names = [line.strip() for line in lines if line.strip()]
    for number, name in enumerate(names):
        if name.startswith(".") or set(name) & set('/\\:*?"<>|'):
            raise HandoutError(f"{name!r} cannot be the name of a folder: write it in another way")
        if name in names[:number]:
            raise HandoutError(f"{name!r} is twice in {file}: a folder is one student's")
    if not names:
        raise HandoutError(f"there is no name in {file}: write one in each line")
    return names


def handed_out(source: Path, seed: int | None = None, has_answers: bool = False) -> NotebookNode:
    """A lesson without outputs, in the variant of this seed; without one, with the lesson's own
    numbers.  With `has_answers` it is the teacher's, for `nbgrader generate_assignment`.
    """
    text, number = source.read_text(encoding="utf-8"), source.stem[:2]
    learner, solution = (
        parse(text, f"lesson-{number}", version) for version in ("learner", "solution")
    )
    cells = list(with_nbgrader(learner, solution, has_answers))
    if seed is not None:
        is_parameters = ["parameters" in cell.metadata.get("tags", ()) for cell in cells]
        variant = new_code_cell(  # type: ignore[no-untyped-call]
            cell_of(values_of(number, seed)),
            id=f"lesson-{number}-variant",
            metadata={"tags": [TAG]},
        )
        cells.insert(is_parameters.index(True) + 1, variant)
    learner.cells = cells
    return learner


def hand_out(
    folder: Path, sources: Iterable[Path], students: Iterable[str], seeds: Iterable[int]
) -> dict[str, int | None]:
    """Write the lessons into a folder for each student or seed, or, without any, into `folder`.

    Returns the variant in each folder.  Raises `HandoutError` where a file is in the way, before
    anything is written, and OSError.
    """
    variants: dict[str, int | None] = {name: seed_of(name) for name in students}
    variants |= {f"variant-{seed}": seed for seed in seeds}
    made = variants or {".": None}
    _write(
        {
            folder / place / notebook_name(source): handed_out(source, seed)
            for place, seed in made.items()
            for source in sources
        }
    )
    return made


def hand_out_to_nbgrader(course: Path, sources: Iterable[Path]) -> list[str]:
    """Write the teacher's versions into a course of nbgrader: an assignment for each lesson with
    exercises in its cells.

    Returns the assignments' names.  Raises as `hand_out` does.
    """
    made = {notebook_name(each): handed_out(each, has_answers=True) for each in sources}
    notebooks = {Path(name): each for name, each in made.items() if has_exercises(each)}
    _write({course / "source" / name.stem / name: each for name, each in notebooks.items()})
    return [name.stem for name in notebooks]


def _write(notebooks: dict[Path, NotebookNode]) -> None:
    texts = {file: nbformat.writes(each) + "\n" for file, each in notebooks.items()}  # type: ignore[no-untyped-call]
    for file, text in texts.items():
        if file.exists() and file.read_text(encoding="utf-8") != text:
            raise HandoutError(f"{file} is there with other contents: choose another folder")
    for file, text in texts.items():
        if not file.exists():
            put_whole(file, text.encode())
