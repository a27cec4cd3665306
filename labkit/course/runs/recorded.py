"""Writes a simulated run as Python code, consisting of the run's scenario and the digest of its
trace.

The scenario can be pasted into a notebook, an exercise or a golden script.
"""

import re
from dataclasses import dataclass
from textwrap import wrap

import labkit
from labkit.worlds.sim.settings.scenario_values import CLASSES, non_default_fields
from labkit.worlds.sim.trace import Trace

_WIDTH = 92
_CLASS = re.compile(r"\b([A-Z]\w*)\(")


@dataclass(frozen=True, slots=True)
class Rerun:
    """The code that runs a scenario again.

    from_labkit: the names that the code needs from `labkit`; imports: the code's other imports;
    chooses_variant: whether the code chooses the variant, so that the scenario must not name one.
    """

    code: str
    from_labkit: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    chooses_variant: bool = False


RUN = Rerun("run(scenario)", from_labkit=("run",))


def recorded(trace: Trace, remark: str, again: Rerun = RUN) -> str:
    """Return code that runs the scenario of the trace again and checks that the two runs do not
    differ.

    remark: a description of what the run shows, which becomes the first line.
    """
    parts = {name: repr(part) for name, part in non_default_fields(trace.scenario).items()}
    if again.chooses_variant:
        del parts["variant"]
    used = set(_CLASS.findall(" ".join(parts.values()))) & CLASSES.keys()
    if "decisions" in parts:
        decided = trace.scenario.decisions
        # Break lines only between decisions, whose names contain spaces.
        items = (f"{key!r}: {part!r},".replace(" ", "\0") for key, part in decided.items())
        rows = (f"        {row}\n" for row in wrap(" ".join(items), _WIDTH - 8))
        parts["decisions"] = "{\n" + "".join(rows).replace("\0", " ") + "    }"
    public = sorted(
        {*(used & {*labkit.__all__}), *again.from_labkit, "Scenario", "broken", "check_all"}
    )
    others = sorted(used - {*public})
    lines = [f"from labkit import {', '.join(public)}", *again.imports]
    lines += [f"from {CLASSES[name].__module__} import {name}" for name in others]
    fields = "".join(f"    {name}={part},\n" for name, part in parts.items())
    return (
        f"# {remark}\n" + "\n".join(lines) + f"\n\nscenario = Scenario(\n{fields})\n"
        f'trace = {again.code}\nassert trace.digest == "{trace.digest}"\n'
        "print(*(each.name for each in broken(check_all(trace))))\n"
    )
