"""The steps of the track "build a bookie"."""

from pathlib import Path

from labkit.course.workshop.bookie.steps.process_step import BEFORE
from labkit.course.workshop.bookie.steps.process_step import STEP as LAST
from labkit.course.workshop.tracks import TRACK_FILES, Track

_HERE = Path(__file__).parent

TRACK = Track(
    name="bookie",
    title="Build a bookie",
    file_name=TRACK_FILES["bookie"],
    skeleton=_HERE / "skeleton.py",
    solution=_HERE / "solution.py",
    steps=(*BEFORE, LAST),
)
