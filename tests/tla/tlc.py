"""Find TLC on this machine and run it.

The specification is not part of this project. `LABKIT_TLA` lists directories, separated as in PATH,
that contain the specification (`BookKeeperProtocol.tla` and `MessagePassing.tla` of
Vanlightly/bookkeeper-tlaplus on GitHub) and the modules that it extends (`FiniteSetsExt.tla` and
others of tlaplus/CommunityModules). TLC is downloaded once from Maven Central into the user's
cache; set `LABKIT_TLC_JAR` to use another `tla2tools.jar`.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.system.trace.sentence import describe
from tests.interop.apache import NotToBeHad, fetch_jars
from tests.tla.amendments import AMENDMENTS, Amendment
from tests.tla.ledger_states import Run
from tests.tla.module import NAME, configuration, trace_data

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
NEEDED = ("BookKeeperProtocol.tla", "MessagePassing.tla", "FiniteSetsExt.tla", "SequencesExt.tla")
TIMEOUT_S = 300
_VIOLATED = "Invariant NotExplained is violated"
_EXHAUSTED = "Model checking completed. No error has been found."
_STATES = re.compile(r"(\d+) states generated, (\d+) distinct states found")
_REACHED = re.compile(r'<<"explained", (\d+)>>')


class TlcError(Exception):
    """Raised if TLC has reached no verdict; the message is TLC's output."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """TLC's verdict on a run."""

    run: Run
    explained: int
    """How many of the run's states can be reached in the specification."""
    states: int
    """How many distinct states of the specification TLC found."""
    seconds: float

    @property
    def is_behaviour(self) -> bool:
        """Return whether the specification allows the complete run."""
        return self.explained == len(self.run.states)

    def __str__(self) -> str:
        if self.is_behaviour:
            verdict = f"is a behaviour of the specification ({len(self.run.states)} states)"
        else:
            event = self.run.states[self.explained].event
            assert event is not None, "the first state is the initial one"
            verdict = (
                f"is not a behaviour of the specification: nothing in it explains event {event.seq}"
                f" at {event.time_us / 1000:g} ms: {event.node}: {describe(event)}"
            )
        return f"{verdict}; {self.states} states searched in {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class Tlc:
    """TLC, and the directories with the specification and its modules."""

    jar: Path
    folders: tuple[Path, ...]

    def judge(self, run: Run, amendments: Sequence[Amendment] = AMENDMENTS) -> Judgement:
        """Check whether the specification allows the run. Raises `TlcError`."""
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            shutil.copy(HERE / f"{NAME}.tla", work)
            (work / "TraceData.tla").write_text(trace_data(run, amendments), encoding="utf-8")
            (work / f"{NAME}.cfg").write_text(configuration(run, amendments), encoding="utf-8")
            began = time.perf_counter()
            printed = self._run(work)
            return _judgement(run, printed, time.perf_counter() - began)

    def _run(self, work: Path) -> str:
        library = os.pathsep.join(map(str, self.folders))
        options = (
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-DTLA-Library={library}",
        )
        search = ("-workers", "1", "-deadlock", "-metadir", "states", NAME)
        command = ["java", *options, "-cp", str(self.jar), "tlc2.TLC", *search]
        try:
            done = subprocess.run(
                command, cwd=work, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as problem:
            raise TlcError(f"TLC reached no verdict within {TIMEOUT_S} s") from problem
        return done.stdout + done.stderr


def _judgement(run: Run, printed: str, seconds: float) -> Judgement:
    states = _STATES.search(printed)
    if states is None or not (_VIOLATED in printed or _EXHAUSTED in printed):
        raise TlcError(printed)
    explained = max(int(number) for number in _REACHED.findall(printed))
    explained = len(run.states) if _VIOLATED in printed else explained
    return Judgement(run, explained, int(states[2]), seconds)


def get_tlc() -> Tlc:
    """Find TLC and the specification. Raises `NotToBeHad` if something is missing."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if missing:
        raise NotToBeHad(f"{', '.join(missing)} not on the PATH")
    folders = tuple(map(Path, filter(None, os.environ.get("LABKIT_TLA", "").split(os.pathsep))))
    lacking = [name for name in NEEDED if not any((each / name).exists() for each in folders)]
    if lacking:
        raise NotToBeHad(f"no directory in LABKIT_TLA contains {', '.join(lacking)}")
    jar = os.environ.get("LABKIT_TLC_JAR")
    jars = [Path(jar)] if jar else sorted(fetch_jars("tlc", POM).glob("*.jar"))
    return Tlc(jars[0].absolute(), tuple(each.absolute() for each in folders))
