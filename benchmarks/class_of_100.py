"""Creates the submissions of a fictitious class of 100, to measure and demonstrate `labkit grade`.

    python -m benchmarks.class_of_100 FOLDER     writes FOLDER/submitted and FOLDER/class.csv
    time labkit grade FOLDER/submitted/* --students FOLDER/class.csv --out FOLDER/grades

Each student has a variant of lessons 05 and 09. Where the lesson shows a typical wrong answer, a
third of the students give that answer. A tenth of the students submit the notebooks unchanged.
"""

import csv
import re
import sys
from itertools import product
from pathlib import Path
from random import Random

import nbformat
from nbformat import NotebookNode

from labkit.course.grading.handout import handout_notebook, lesson_sources
from labkit.course.grading.slices import CHECKS, SHOWS_REFUSED
from labkit.course.grading.variants import seed_of
from labkit.course.lessons.build import notebook_name, parse

LESSONS = ("05", "09")
_FIRST = ("Ada", "Bob", "Chen", "Dina", "Emil", "Fay", "Gita", "Hugo", "Ines", "Jan")
_LAST = ("Abel", "Berg", "Costa", "Diaz", "Ek", "Fox", "Gray", "Hall", "Ito", "Jung")
NAMES = [" ".join(each) for each in product(_FIRST, _LAST)]


def write_class(folder: Path) -> None:
    random = Random(1)
    sources = lesson_sources(LESSONS)
    for name in NAMES:
        has_answers = random.random() < 0.9
        for number, source in sources.items():
            notebook = handout_notebook(source, seed_of(name))
            if has_answers:
                text = source.read_text(encoding="utf-8")
                _answer(notebook, parse(text, f"lesson-{number}", "solution"), random)
            file = folder / "submitted" / name / notebook_name(source)
            file.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, file)  # type: ignore[no-untyped-call]
    with (folder / "class.csv").open("w", encoding="utf-8", newline="") as table:
        lines = csv.writer(table)
        lines.writerow(["student", "id"])
        lines.writerows([name, 20_000 + number] for number, name in enumerate(NAMES))


def _answer(notebook: NotebookNode, solution: NotebookNode, random: Random) -> None:
    solved = {cell.id: cell.source for cell in solution.cells}
    for cell in notebook.cells:
        cell.source = solved.get(cell.id, cell.source)
        shown = CHECKS.search(cell.source)
        if SHOWS_REFUSED in cell.metadata.get("tags", ()) and shown and random.random() < 1 / 3:
            # Only the last answer counts, so append the wrong answer at the end.
            cell.metadata.tags.remove(SHOWS_REFUSED)
            cell.source = re.sub(r", must_pass=False\)", ")", cell.source)


if __name__ == "__main__":
    write_class(Path(sys.argv[1]))
