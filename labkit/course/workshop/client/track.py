"""The steps of the track "build a client"."""

from labkit.course.workshop.client.steps.append_step import APPEND
from labkit.course.workshop.client.steps.change_step import CHANGE
from labkit.course.workshop.client.steps.close_step import CLOSE
from labkit.course.workshop.client.steps.lac_step import LAST_ADD_CONFIRMED
from labkit.course.workshop.client.steps.program_step import PROGRAM
from labkit.course.workshop.client.steps.read_step import READ
from labkit.course.workshop.client.steps.recover_step import RECOVER
from labkit.course.workshop.tracks import Track

_STEPS = (APPEND, LAST_ADD_CONFIRMED, READ, CHANGE, CLOSE, RECOVER, PROGRAM)
TRACK = Track("client", "Build a client", _STEPS)
