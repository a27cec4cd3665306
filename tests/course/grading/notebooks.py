"""Creates fictitious submissions."""

import json
from pathlib import Path

FROM = "from labkit.course.lessons import check\n"
RIGHT = (
    "def f(entry_id, ensemble_size, write_quorum):\n"
    "    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))\n"
    "check('quorums.write_set', f)"
)
LABKITS = (
    "from labkit.system.client import striping\ncheck('quorums.write_set', striping.write_set)"
)
WRAPS = (
    "from labkit.system.client import striping\n"
    "def f(entry_id, ensemble_size, write_quorum):\n"
    "    return striping.write_set(entry_id, ensemble_size, write_quorum)\n"
    "check('quorums.write_set', f)"
)
HANGS = "def f(entry_id, ensemble_size, write_quorum):\n    while True: pass\n" + (
    "check('quorums.write_set', f)"
)
WRONG = "check('quorums.write_set', lambda e, size, qw: tuple(range(qw)))"
REPLACES = (
    "import labkit.course.checking.exercise as e, labkit.course.exercises.quorums as q\n"
    "from labkit.system.client import striping\n"
    "def f(entry_id, ensemble_size, write_quorum): return tuple(range(write_quorum))\n"
    "striping.write_set = q.write_set = f\n"
    "e.Refused.__init__ = lambda *_: None\n"
    "e.Exercise.run = lambda *_: 'passed'\n"
) + "check('quorums.write_set', f)"


DROPPED = (
    "def dropped(list_stored, ask_existing):\n"
    "    stored = list_stored()\n"
    "    return [each for each in stored if each not in ask_existing()]\n"
    "check('garbage.dropped', dropped)"
)
CATCHES = DROPPED.replace(
    "    return [each for each in stored if each not in ask_existing()]\n",
    "    try:\n        existing = ask_existing()\n    except Exception:\n        existing = []\n"
    "    return [each for each in stored if each not in existing]\n",
)


def cells(*sources: str) -> list[str]:
    return [FROM, *sources]


def write_notebook(file: Path, *sources: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    made = [{"cell_type": "code", "metadata": {}, "source": each} for each in cells(*sources)]
    file.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4}))
    return file
