"""Tests the messages that the command prints about a configuration file."""

from pathlib import Path

import pytest

from labkit.worlds.live.host.exit_codes import EXIT_FAILED
from tests.cli.test_cli import labkit, one_line


@pytest.mark.sampled
@pytest.mark.parametrize("verb", ["bookie", "broker", "autorecovery"])
def test_a_configuration_that_cannot_be_read_is_not_taken_for_a_failed_disk(
    tmp_path: Path, verb: str
) -> None:
    done = labkit(verb, "--conf", str(tmp_path))
    assert done.returncode == EXIT_FAILED
    assert one_line(done) == f"labkit: {verb}: {tmp_path} cannot be read: Is a directory"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ("bookie", "tlsKeyStore"),
        ("autorecovery", "tlsKeyStore"),
        ("broker", "tlsTrustCertsFilePath"),
    ],
)
def test_a_server_with_a_refused_key_ends_in_a_line_that_names_it(
    tmp_path: Path, verb: str, key: str
) -> None:
    conf = tmp_path / "the.conf"
    conf.write_text(f"numIOThreads=4\nadvertisedAdress=here\n{key}=/its/path\n")
    done = labkit(verb, "--conf", str(conf))
    assert done.returncode == EXIT_FAILED
    assert f"labkit: {verb}: labkit does not support this value of {key}:" in one_line(done)


@pytest.mark.parametrize("verb", ["bookie", "autorecovery"])
def test_keys_without_effect_are_named_in_one_line(tmp_path: Path, verb: str) -> None:
    conf = tmp_path / "the.conf"
    conf.write_text("numIOThreads=4\nadvertisedAdress=here\nbookieId=b0\n")
    line, _ = labkit(verb, "--conf", str(conf)).stderr.splitlines()
    assert line == (
        f"labkit: {conf}: labkit does not use these keys: advertisedAdress (did you mean"
        " advertisedAddress?), numIOThreads; labkit's site lists the keys that it uses"
    )
