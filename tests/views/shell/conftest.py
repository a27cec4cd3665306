import asyncio

import pytest

from labkit.cli.main import main
from tests.views.shell.support import Ask, Run, runner


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    async def ask(zookeeper: str, *arguments: str) -> tuple[int, str, str]:
        command = ["shell", "--zookeeper", zookeeper, *arguments]
        code = await asyncio.to_thread(main, command)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return ask
