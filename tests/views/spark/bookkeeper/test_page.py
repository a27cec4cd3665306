"""Tests the example program of docs/spark.md, run as described there, on servers without labkit."""

import re
import sys
from pathlib import Path

import pytest

from labkit.views.spark.shipping import write_zip
from tests.programs import output_of
from tests.views.spark.bookkeeper.stage import Stage
from tests.views.spark.bookkeeper.standalone import (
    BIN,
    ConnectServer,
    Standalone,
    python_without_labkit,
    spark_environment,
)

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
SHIP = "from labkit.views.spark.shipping import ship_labkit\n\nship_labkit(spark)\n"

pytestmark = pytest.mark.slow


@pytest.fixture
def program(tmp_path: Path) -> Path:
    [code] = re.findall(r"```python\n(# count_by_key\.py.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "count_by_key.py"
    path.write_text(code, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def arguments(stage: Stage) -> tuple[str, str]:
    """Publish messages with two keys; return the program's arguments: ZooKeeper and the topic."""

    async def send() -> None:
        producer = topic.producer("p")
        for number in range(60):
            producer.send(b"%d" % number, key="a" if number % 3 else "b")
        await producer.flush()
        await topic.close()

    topic = stage.topic("with-keys", 2, entries_per_ledger=10)
    stage.run(send())
    return stage.cluster.zookeeper, "with-keys"


def counted(
    command: list[object], folder: Path, python: Path | None = None, **more: str
) -> list[str]:
    """Run the command and return what the program prints; only the driver can import labkit."""
    environment = spark_environment(python or Path(sys.executable)) | more
    return output_of(*command, folder=folder, env=environment).split("\n")[-3:-1]


def test_spark_submit_runs_it_on_this_machine(
    program: Path, arguments: tuple[str, str], tmp_path: Path
) -> None:
    command = [BIN / "spark-submit", "--master", "local[2]", program, *arguments]
    assert counted(command, tmp_path, PYTHONPATH=str(ROOT)) == ["a 40", "b 20"]


@pytest.mark.long
def test_spark_submit_runs_it_on_a_cluster_that_gets_labkit_as_a_file(
    standalone: Standalone, program: Path, arguments: tuple[str, str], tmp_path: Path
) -> None:
    code = tmp_path / "labkit.zip"
    write_zip(code)
    options = ["--master", standalone.url, "--py-files", code, "--executor-memory", "512m"]
    command = [BIN / "spark-submit", *options, program, *arguments]
    assert counted(command, tmp_path, python_without_labkit(tmp_path)) == ["a 40", "b 20"]


@pytest.mark.long
@pytest.mark.parametrize("client", ["first", "second"])
def test_clients_run_it_behind_connect_one_after_the_other(
    connect_server: ConnectServer,
    program: Path,
    arguments: tuple[str, str],
    tmp_path: Path,
    client: str,
) -> None:
    code = program.read_text(encoding="utf-8")
    assert "ship_labkit(spark)" in PAGE
    code = code.replace("spark.dataSource.register", f"{SHIP}spark.dataSource.register")
    program.write_text(code, encoding="utf-8")
    command = [sys.executable, program, *arguments]
    remote = connect_server.url
    assert counted(command, tmp_path, SPARK_REMOTE=remote, PYTHONPATH=str(ROOT)) == ["a 40", "b 20"]
