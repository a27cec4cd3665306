"""The track "build a client", step by step."""

from pathlib import Path

from labkit.course.workshop.client.append_step import APPEND
from labkit.course.workshop.client.change_step import CHANGE
from labkit.course.workshop.client.close_step import CLOSE
from labkit.course.workshop.client.lac_step import LAST_ADD_CONFIRMED
from labkit.course.workshop.client.program_step import PROGRAM
from labkit.course.workshop.client.read_step import READ
from labkit.course.workshop.client.recover_step import RECOVER
from labkit.course.workshop.step import Track

_HERE = Path(__file__).parent

TRACK = Track(
    name="client",
    title="Build a client",
    file_name="myclient.py",
    skeleton=_HERE / "skeleton.py",
    solution=_HERE / "solution.py",
    steps=(APPEND, LAST_ADD_CONFIRMED, READ, CHANGE, CLOSE, RECOVER, PROGRAM),
)
