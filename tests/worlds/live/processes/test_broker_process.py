"""Tests how a broker loads its certificate and its private key."""

import subprocess
import sys
from pathlib import Path

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.processes.broker_process import tls_context
from tests.until import DEADLINE_S

LOADS = """
import pathlib, sys
from labkit.worlds.live.processes.broker_process import tls_context
tls_context(*map(pathlib.Path, sys.argv[1:]))
"""


def make_certificate(folder: Path, *options: str) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", "/CN=localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files, *options], check=True, capture_output=True)
    return certificate, key


def test_a_missing_certificate_is_not_taken_for_a_failed_disk(tmp_path: Path) -> None:
    missing = tmp_path / "certificate.pem"
    with pytest.raises(BKIncorrectParameterException, match=f"{missing} and .*: .* No such file"):
        tls_context(missing, tmp_path / "key.pem")


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "certificate.pem"
    file.write_text("nothing")
    with pytest.raises(BKIncorrectParameterException, match="are not a certificate and its key"):
        tls_context(file, file)


def test_an_encrypted_key_is_refused_without_waiting_for_its_password(tmp_path: Path) -> None:
    files = make_certificate(tmp_path, "-passout", "pass:sesame")
    with subprocess.Popen(
        [sys.executable, "-c", LOADS, *map(str, files)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.wait(DEADLINE_S) == 1
            assert process.stderr is not None
            assert f"{files[1]} is encrypted; decrypt it with" in process.stderr.read()
        finally:
            process.kill()
