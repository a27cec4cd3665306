"""The steps of the track "build a client"."""

from pathlib import Path

from labkit.course.workshop.client.steps.append_step import APPEND
from labkit.course.workshop.client.steps.change_step import CHANGE
from labkit.course.workshop.client.steps.close_step import CLOSE
from labkit.course.workshop.client.steps.lac_step import LAST_ADD_CONFIRMED
from labkit.course.workshop.client.steps.program_step import PROGRAM
from labkit.course.workshop.client.steps.read_step import READ
from labkit.course.workshop.client.steps.recover_step import RECOVER
from labkit.course.workshop.tracks import TRACK_FILES, Track

_HERE = Path(__file__).parent

TRACK = Track(
    name="client",
    title="Build a client",
    file_name=TRACK_FILES["client"],
    skeleton=_HERE / "skeleton.py",
    solution=_HERE / "solution.py",
    steps=(APPEND, LAST_ADD_CONFIRMED, READ, CHANGE, CLOSE, RECOVER, PROGRAM),
)
