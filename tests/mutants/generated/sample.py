"""A sample of a package's mutants, which draws the mutants and summarizes their outcomes."""

import hashlib
import json
import math
from pathlib import Path

from tests.mutants.generated.equivalent import EQUIVALENT
from tests.mutants.generated.operators import Mutant, mutants_of
from tests.mutants.generated.reached import ROOT, STATES
from tests.mutants.generated.trials import Outcome, Trial

_Z_95 = 1.96
ALIVE = (Outcome.SURVIVED, Outcome.UNREACHED)


def all_of(package: str) -> list[Mutant]:
    """Return every mutant of a package."""
    paths = sorted((ROOT / "labkit" / "system" / package).rglob("*.py"))
    return [
        mutant
        for path in paths
        for mutant in mutants_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]


def drawn(package: str, seed: int) -> list[Mutant]:
    """Return a package's mutants in the order in which this seed draws them.

    The order depends only on the mutants' names, so changes to the code do not reorder other
    mutants.
    """

    def lot(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()

    return sorted(all_of(package), key=lot)


class Sample:
    """The outcomes so far, which are stored in a file."""

    def __init__(self, package: str, seed: int, folder: Path = STATES) -> None:
        self.package, self.seed = package, seed
        self._path = folder / f"{package}-{seed}.jsonl"
        self.outcomes: dict[str, Outcome] = {}
        self.tests: dict[str, str] = {}
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        for line in lines:
            told = json.loads(line)
            self.outcomes[told["mutant"]] = Outcome(told["outcome"])
            self.tests[told["mutant"]] = told["test"]

    def add(self, trial: Trial) -> None:
        """Write an outcome to the file immediately, so that it is not lost if the run stops."""
        name = trial.mutant.name
        self.outcomes[name], self.tests[name] = trial.outcome, trial.test
        self._path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"mutant": name, "outcome": trial.outcome.value, "test": trial.test}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(kept) + "\n")

    def names(self, *outcomes: Outcome) -> list[str]:
        """Return the mutants with these outcomes, in the order in which they were tried."""
        return [name for name, each in self.outcomes.items() if each in outcomes]

    def equivalent(self) -> list[str]:
        """Return the survivors that do not violate any promise of the system."""
        return [name for name in self.names(*ALIVE) if name in EQUIVALENT]

    def open(self) -> list[str]:
        """Return the survivors that the tests should have killed."""
        return [name for name in self.names(*ALIVE) if name not in EQUIVALENT]


def interval(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval for the proportion, between 0 and 1."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, _Z_95**2
    center = share + z2 / (2 * trials)
    spread = _Z_95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    scale = 1 + z2 / trials
    return max(0.0, (center - spread) / scale), min(1.0, (center + spread) / scale)


def line_of(sample: Sample) -> str:
    """Summarize the sample in one line."""
    tried, equivalent = len(sample.outcomes), len(sample.equivalent())
    endless = len(sample.names(Outcome.ENDLESS))
    unreached = [name for name in sample.open() if sample.outcomes[name] is Outcome.UNREACHED]
    killed = len(sample.names(Outcome.KILLED)) + endless
    low, high = interval(killed, tried - equivalent)
    return (
        f"{sample.package}: {tried} of {len(all_of(sample.package)):,} drawn with seed"
        f" {sample.seed}; killed {killed} ({endless} by a time limit), equivalent {equivalent},"
        f" survived {len(sample.open())} ({len(unreached)} on lines that no quick test reaches):"
        f" {killed / max(1, tried - equivalent):.1%} killed,"
        f" 95 % interval {low:.1%} to {high:.1%}"
    )
