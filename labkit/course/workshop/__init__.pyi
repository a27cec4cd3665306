from labkit.course.workshop.playing import play
from labkit.course.workshop.step_check import begin, check, hint, step
from labkit.course.workshop.working_parts import overview, your_bookie
from labkit.system.storage.disk import Disk, File

__all__ = [
    "Disk",
    "File",
    "begin",
    "check",
    "hint",
    "overview",
    "play",
    "step",
    "your_bookie",
]
