"""Plays a scenario, move by move, with the learner's parts in place of labkit's.

    play("bookie")                       one add to a bookie with the parts of mybookie.py
    play("client", scenario, my_file)    any scenario, with the parts of the client in my_file

A part of the learner's is used as soon as the first test of its step passes; for all other parts,
labkit uses its own code. Every move runs the whole scenario again. As in a check, the learner's
code is stopped if it executes too many bytecode instructions, and its first exception is shown.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from labkit.course.checking.check import ENDLESS, RanTooLongError, instruction_limit
from labkit.course.checking.refused import Refused
from labkit.course.runs.cluster_trial import LEARNERS_VARIANT
from labkit.course.runs.play import Play
from labkit.course.runs.recorded import Rerun, recorded
from labkit.course.workshop.bookie.common_trials import ONE_ADD
from labkit.course.workshop.bookie.store import store_of
from labkit.course.workshop.client.adapter import client_of
from labkit.course.workshop.client.runs import ONE_IS_TAKEN
from labkit.course.workshop.files import error_with_line, last_line_in, load
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import Track, track
from labkit.course.workshop.working_parts import working_parts
from labkit.views.widgets.play import Remark
from labkit.views.widgets.scene_view import Message
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS, Variant
from labkit.worlds.sim.workload.steps import Read, Recover, Write

_NEEDS = {Write: "Writer", Read: "Reader", Recover: "recover"}
"""The part of a client that carries out a step; steps of other kinds need labkit's client."""
_SCENARIOS = {"bookie": ONE_ADD, "client": ONE_IS_TAKEN}


def play(
    name: str, scenario: Scenario | None = None, file: str | Path | None = None
) -> "LearnersPlay":
    """Play a scenario with the learner's file for the track `name` ("bookie" or "client").

    scenario: by default, one add to one bookie, or a writer and a recovery of the same ledger.
    file: by default `mybookie.py` or `myclient.py` in the current folder.

    Raises `Refused` if the first test of no step passes, `NotLoadedError` if the file cannot be
    loaded, and `NoSuchStepError` for an unknown track.
    """
    found = track(name)
    learner = load(Path(file or found.file_name), seeds=0)
    with instruction_limit(learner.module.__name__):
        learner.parts = working_parts(found, learner)
    if not learner.parts:
        raise Refused(f"No first test of {learner.file.name} passes yet: start with step 1.")
    return LearnersPlay(found, learner, scenario or _SCENARIOS[name])


class LearnersPlay(Play):
    """A play that runs the learner's parts."""

    def __init__(self, found: Track, learner: Learner, scenario: Scenario) -> None:
        self._track, self._learner = found.name, learner
        self._variant = Variant(
            LEARNERS_VARIANT, "with the learner's code", **self._parts(scenario)
        )
        with self._in_place():
            super().__init__(replace(scenario, variant=LEARNERS_VARIANT))
        self._show_error()

    def _parts(self, scenario: Scenario) -> dict[str, Any]:
        if self._track == "bookie":
            return {"store": store_of(self._learner)}
        needed: dict[str, set[str]] = {}
        for step in scenario.workload:
            needed.setdefault(step.client, set()).add(_NEEDS.get(type(step), ""))
        nodes = (name for name, parts in needed.items() if parts <= {*self._learner.parts})
        return {"client": client_of(self._learner, tuple(nodes))}

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Let scenarios whose variant is `LEARNERS_VARIANT` run the learner's code."""
        self._learner.error = None
        limit = instruction_limit(self._learner.module.__name__)
        with patch.dict(VARIANTS, {LEARNERS_VARIANT: self._variant}), limit:
            yield

    def handle(self, message: Message) -> None:
        try:
            with self._in_place():
                super().handle(message)
        except (SimulationError, SystemExit):
            if self._learner.error is None:
                raise
        finally:
            self._show_error()

    def continued(self) -> Trace:
        """Continue the run to its end, but keep the error, if any, that the moves played so far
        have caused.
        """
        before, self._learner.error = self._learner.error, None
        try:
            continued: Trace = super().continued()
            return continued
        except SimulationError:
            return self.played.trace
        finally:
            self._learner.error = before

    def _show_error(self) -> None:
        error = self._learner.error
        if isinstance(error, Refused):
            self.notice = f"✘ {error.message}"
        elif isinstance(error, RanTooLongError):
            self.notice = f"✘ {ENDLESS} it was last in {last_line_in(self._learner.file, error)}."
        elif error is not None:
            self.notice = f"✘ Your code raised {error_with_line(self._learner.file, error)}."

    def remarks(self) -> list[Remark]:
        yours = f"Yours: {', '.join(self._learner.parts)} ({self._learner.file.name})"
        return [(yours, "stored"), *super().remarks()]

    def recorded(self) -> str:
        file = str(self._learner.file)
        again = Rerun(
            f"play({self._track!r}, scenario, {file!r}).continued()",
            imports=("from labkit.course.workshop import play",),
            chooses_variant=True,
        )
        return recorded(self.continued(), f"with the code in {file}", again)
