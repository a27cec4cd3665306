"""The learner's file: copied from the skeleton once, never overwritten, loaded at every check."""

import linecache
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, TracebackType

from labkit.course.workshop.learner import Learner
from labkit.shipped_files import put_whole

_LOG_BYTES = 65_536


class NotLoadedError(Exception):
    """The learner's file cannot be read or run; the words name its file and line."""


def start_file(skeleton: Path, file: Path) -> bool:
    """Make the learner's file if there is none; returns whether it is new.  Raises `OSError`."""
    if file.exists():
        return False
    put_whole(file, skeleton.read_bytes())
    return True


def load(file: Path, seeds: int) -> Learner:
    """Run the file as it is on disk now.  Raises `NotLoadedError`, and NotImplementedError as the
    file raises it.
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
        where = place_in(file, error.__traceback__) or file.name
        raise NotLoadedError(f"{words_of(error)} in {where}") from error
    return Learner(file, module, seeds)


def place_in(file: Path, traceback: TracebackType | None) -> str:
    """The last line of the file on the way to an error: "mybookie.py, line 7, in seal: ..."; "" if
    the way does not lead through the file.
    """
    for frame, line in reversed(list(walk_tb(traceback))):
        code = frame.f_code
        if code.co_filename == str(file):
            text = linecache.getline(str(file), line).strip()
            return f"{file.name}, line {line}, in {code.co_name}: {text}"
    return ""


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a log that are not empty: what the learner's code printed has no limit."""
    if not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        lines = file.read(_LOG_BYTES).decode(errors="replace").splitlines()
    return [line for line in lines if line.strip()][-count:]


def words_of(error: BaseException) -> str:
    """An error's kind and its own words."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")
