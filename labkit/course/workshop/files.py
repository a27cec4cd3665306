"""Handles the learner's file, which is copied from the skeleton once, never overwritten, and loaded
for every check.
"""

import linecache
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from labkit.course.checking.refused import words_of
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import Step, Track
from labkit.shipped_files import put_whole

_LOG_BYTES = 65_536


class NotLoadedError(Exception):
    """Raised if the learner's file cannot be read or run; the message contains the file name and
    the line.
    """


def create_if_missing(skeleton: Path, file: Path) -> bool:
    """Create the learner's file if it does not exist; return whether it was created. Raises
    `OSError` if the file cannot be created.
    """
    if file.exists():
        return False
    put_whole(file, skeleton.read_bytes())
    return True


def load(file: Path, seeds: int) -> Learner:
    """Run the current contents of the file, and return it as a `Learner`.

    Raises `NotLoadedError` if the file cannot be read or run, and `NotImplementedError` if the
    file's code raises it.
    """
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    linecache.checkcache(str(file))
    try:
        code = compile(file.read_text(encoding="utf-8"), str(file), "exec")
        exec(code, vars(module))
    except SyntaxError as error:
        raise NotLoadedError(
            f"{file.name}, line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise NotLoadedError(f"{file.name} cannot be read: {error}") from None
    except NotImplementedError:
        raise
    except (Exception, SystemExit) as error:
        where = last_line_in(file, error) or file.name
        raise NotLoadedError(f"{words_of(error)} in {where}") from error
    return Learner(file, module, seeds)


def add_stand_ins(learner: Learner, found: Track, step: Step) -> None:
    """Replace the functions of this step, which the learner has not written, with the solution's,
    so that later parts can call them.
    """
    if step.stand_ins:
        solution = load(found.solution, seeds=0).module
        for name in step.stand_ins:
            setattr(learner.module, name, getattr(solution, name))


def last_line_in(file: Path, error: BaseException) -> str:
    """Return the last line of this file in the exception's traceback, in the form "mybookie.py,
    line 7, in seal: ...".

    Returns "" if the traceback does not include this file.
    """
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        code = frame.f_code
        if code.co_filename == str(file):
            text = linecache.getline(str(file), line).strip()
            return f"{file.name}, line {line}, in {code.co_name}: {text}"
    return ""


def error_with_line(file: Path, error: BaseException) -> str:
    """Describe an exception, with the last line of this file in its traceback, if there is one."""
    where = last_line_in(file, error)
    return f"{words_of(error)} in {where}" if where else words_of(error)


def last_lines(log: Path, count: int) -> list[str]:
    """Return the last non-empty lines of a log.

    Only the end of the log is read, because the learner's code may print any amount of text.
    """
    if not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        lines = file.read(_LOG_BYTES).decode(errors="replace").splitlines()
    return [line for line in lines if line.strip()][-count:]
