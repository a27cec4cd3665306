"""Run programs in other processes."""

import subprocess
from pathlib import Path


def output_of(
    *command: object, folder: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """Run the command and return its output; fail with the end of all that it printed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
