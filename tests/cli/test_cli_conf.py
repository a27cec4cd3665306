"""Tests the messages that the command prints about a configuration file."""

from pathlib import Path

import pytest

from labkit.cli.main import main
from labkit.worlds.live.host.exit_codes import EXIT_FAILED

Capsys = pytest.CaptureFixture[str]


@pytest.mark.parametrize("verb", ["bookie", "broker", "autorecovery"])
def test_a_configuration_that_cannot_be_read_is_not_taken_for_a_failed_disk(
    tmp_path: Path, capsys: Capsys, verb: str
) -> None:
    assert main([verb, "--conf", str(tmp_path)]) == EXIT_FAILED
    complaint = f"labkit: {verb}: {tmp_path} cannot be read: Is a directory\n"
    assert capsys.readouterr() == ("", complaint)


@pytest.mark.parametrize(
    ("verb", "key"),
    [
        ("bookie", "tlsKeyStore"),
        ("autorecovery", "tlsKeyStore"),
        ("broker", "tlsTrustCertsFilePath"),
    ],
)
def test_a_server_with_a_refused_key_ends_in_a_line_that_names_it(
    tmp_path: Path, capsys: Capsys, verb: str, key: str
) -> None:
    conf = tmp_path / "the.conf"
    conf.write_text(f"numIOThreads=4\nadvertisedAdress=here\n{key}=/its/path\n")
    assert main([verb, "--conf", str(conf)]) == EXIT_FAILED
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"labkit: {verb}: labkit does not support this value of {key}:")


@pytest.mark.parametrize("verb", ["bookie", "autorecovery"])
def test_keys_without_effect_are_named_in_one_line(
    tmp_path: Path, capsys: Capsys, verb: str
) -> None:
    conf = tmp_path / "the.conf"
    conf.write_text("numIOThreads=4\nadvertisedAdress=here\nbookieId=b0\n")
    main([verb, "--conf", str(conf)])
    line, _ = capsys.readouterr().err.splitlines()
    assert line == (
        f"labkit: {conf}: labkit does not use these keys: advertisedAdress (did you mean"
        " advertisedAddress?), numIOThreads; labkit's site lists the keys that it uses"
    )
