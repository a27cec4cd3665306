"""Scripts shared by the tests of the simulated world."""

from labkit.worlds.sim.settings.bookie_script import (
    Add,
    Checkpoint,
    Collect,
    Commit,
    Fence,
    Restart,
    ScriptStep,
    SetExplicitLac,
)

ONE_CHECKPOINT: tuple[ScriptStep, ...] = (Add(5, 0), Commit(), Checkpoint())
TWO_LEDGERS: tuple[ScriptStep, ...] = (Add(4, 0), Add(5, 0), Commit(), Checkpoint())
ADD_INSIDE_FLUSH: tuple[ScriptStep, ...] = (
    Add(5, 0),
    Commit(),
    Checkpoint(during=(Add(5, 1), Commit())),
)
FENCE_ALONE: tuple[ScriptStep, ...] = (*ONE_CHECKPOINT, Fence(5), Commit(), Checkpoint())
NEXT_JOURNAL: tuple[ScriptStep, ...] = (
    Add(5, 0),
    Commit(),
    Restart(),
    Add(5, 1),
    Commit(),
    Checkpoint(),
)
FULL_JOURNAL: tuple[ScriptStep, ...] = (Add(5, 0, 1024 * 1024), Commit(), Add(5, 1), Commit())
EVERYTHING: tuple[ScriptStep, ...] = (
    *(Add(5, 0), Commit(), Add(5, 1), Commit()),
    Checkpoint(during=(Add(5, 2), Add(0x1234, 0, 1500), Commit())),
    *(Add(6, 0), Fence(5), SetExplicitLac(6, 0), Fence(99), Commit(), Checkpoint(), Restart()),
    *(Add(6, 1), Commit(), Checkpoint(during=(Add(6, 2), Fence(6), Commit())), Restart()),
)
COMPACTION: tuple[ScriptStep, ...] = (
    *(step for i in range(4) for step in (Add(5, i, 100), Add(6, i, 900), Commit())),
    *(Checkpoint(), Add(5, 4), Commit(), Checkpoint(), Collect(deleted=(6,))),
    *(Add(5, 5), Commit()),
)
