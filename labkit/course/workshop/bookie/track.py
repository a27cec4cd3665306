"""The steps of the track "build a bookie"."""

from labkit.course.workshop.bookie.steps.process_step import BEFORE
from labkit.course.workshop.bookie.steps.process_step import STEP as LAST
from labkit.course.workshop.tracks import Track

TRACK = Track("bookie", "Build a bookie", (*BEFORE, LAST))
