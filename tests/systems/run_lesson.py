"""Run the solutions of a lesson cell by cell and print a line for each result card.

python run_lesson.py 05
"""

import sys

from IPython.core.interactiveshell import InteractiveShell

from labkit.course.checking.card import Card
from labkit.course.lessons.build import SOURCES, parse

[number] = sys.argv[1:]
[source] = SOURCES.glob(f"{number}_*.py")
shell = InteractiveShell.instance()
for cell in parse(source.read_text(encoding="utf-8"), "lesson", "solution").cells:
    if cell.cell_type != "code":
        continue
    ran = shell.run_cell(cell.source)
    ran.raise_error()
    if isinstance(ran.result, Card):
        is_refused = "refused" in cell.metadata.get("tags", [])
        sys.stderr.write(f"card {'refused' if is_refused else 'passes'} {ran.result.passed}\n")
