"""Writes the notebooks that a teacher hands out.

Each lesson's source is built without solutions or outputs, once for each student, or once for
nbgrader. The same seed always produces the same bytes. Existing files are never overwritten,
because they may contain a student's work.
"""

from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4.nbbase import new_code_cell

from labkit.course.grading.nbgrader_cells import has_exercises, with_nbgrader
from labkit.course.grading.variants import TAG, parameters_cell, seed_of, variant_values
from labkit.course.lessons.build import SOURCES, notebook_name, parse
from labkit.shipped_files import put_whole
from labkit.system.model.errors import LabkitError


class HandoutError(LabkitError):
    """Raised if the handout cannot be written, because a lesson is unknown or a file already
    exists.
    """


def lesson_sources(numbers: Iterable[str]) -> dict[str, Path]:
    """Return the sources of these lessons (such as "05"), or of all lessons. Raises `HandoutError`
    if a lesson is unknown.
    """
    every = {each.stem[:2]: each for each in sorted(SOURCES.glob("[0-9][0-9]_*.py"))}
    chosen = list(numbers) or list(every)
    for number in chosen:
        if number not in every:
            raise HandoutError(f"there is no lesson {number}; the lessons are {', '.join(every)}")
    return {number: every[number] for number in chosen}


def handout_notebook(
    source: Path, seed: int | None = None, has_answers: bool = False
) -> NotebookNode:
    """Return a lesson's notebook without outputs, in the variant that this seed selects.

    Without a seed, the notebook has the lesson's own numbers. With `has_answers`, return the
    teacher's version for `nbgrader generate_assignment`.
    """
    text, number = source.read_text(encoding="utf-8"), source.stem[:2]
    learner, solution = (
        parse(text, f"lesson-{number}", version) for version in ("learner", "solution")
    )
    cells = list(with_nbgrader(learner, solution, has_answers))
    if seed is not None:
        is_parameters = ["parameters" in cell.metadata.get("tags", ()) for cell in cells]
        variant = new_code_cell(  # type: ignore[no-untyped-call]
            parameters_cell(variant_values(number, seed)),
            id=f"lesson-{number}-variant",
            metadata={"tags": [TAG]},
        )
        cells.insert(is_parameters.index(True) + 1, variant)
    learner.cells = cells
    return learner


def write_handout(
    folder: Path, sources: Iterable[Path], students: Iterable[str], seeds: Iterable[int]
) -> dict[str, int | None]:
    """Write the lessons into a folder for each student or seed, or directly into `folder`.

    Returns the variant in each folder. If a file already exists with different contents, raises
    `HandoutError` without writing anything. Raises `OSError` if a file cannot be written.
    """
    variants: dict[str, int | None] = {name: seed_of(name) for name in students}
    variants |= {f"variant-{seed}": seed for seed in seeds}
    made = variants or {".": None}
    _write(
        {
            folder / subfolder / notebook_name(source): handout_notebook(source, seed)
            for subfolder, seed in made.items()
            for source in sources
        }
    )
    return made


def write_nbgrader_handout(course: Path, sources: Iterable[Path]) -> list[str]:
    """Write the teacher's versions into an nbgrader course, one assignment per lesson.

    Lessons whose exercises are not answered in notebook cells are skipped. Returns the names of the
    assignments, and raises the same errors as `write_handout`.
    """
    made = {notebook_name(each): handout_notebook(each, has_answers=True) for each in sources}
    notebooks = {Path(name): each for name, each in made.items() if has_exercises(each)}
    _write({course / "source" / name.stem / name: each for name, each in notebooks.items()})
    return [name.stem for name in notebooks]


def _write(notebooks: dict[Path, NotebookNode]) -> None:
    texts = {file: nbformat.writes(each) + "\n" for file, each in notebooks.items()}  # type: ignore[no-untyped-call]
    for file, text in texts.items():
        if file.exists() and file.read_text(encoding="utf-8") != text:
            raise HandoutError(
                f"{file} already exists with different contents: choose another folder"
            )
    for file, text in texts.items():
        if not file.exists():
            put_whole(file, text.encode())
