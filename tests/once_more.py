"""Rerun failed tests on their own, so that CI does not fail because the machine was slow for a
moment.

`.ci/run` loads this plugin with `-p tests.once_more`; `make test` does not, so that nobody
overlooks flaky tests. If more than `MOST` tests fail, none of them are rerun.
"""

import subprocess
import sys

import pytest

MOST = 5
failed: dict[str, None] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        failed[report.nodeid] = None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    is_worker = hasattr(session.config, "workerinput")
    # After a failed collection, `failed` is empty.
    if is_worker or exitstatus != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST:
        return
    sys.stdout.write(f"\nonce more, alone: {len(failed)} failed beside other tests\n")
    sys.stdout.flush()
    if subprocess.run(once_more(session.config), check=False).returncode == 0:
        session.exitstatus = pytest.ExitCode.OK


def once_more(config: pytest.Config) -> list[str]:
    """Return the command that reruns the failed tests with the same Hypothesis profile."""
    arguments = map(str, config.invocation_params.args)
    profile = [each for each in arguments if each.startswith("--hypothesis-profile")]
    return [sys.executable, "-m", "pytest", "-p", "no:nbval", "-q", *profile, *failed]
