import errno
import os

import pytest

from labkit.system.model.errors import LabkitError
from labkit.worlds.live.host.os_error_advice import with_advice


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space on that file system"),
        (errno.EDQUOT, "raise the quota"),
        (errno.EIO, "dmesg"),
        (errno.EROFS, "mount it writable"),
        (errno.EACCES, "read and write access"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EMFILE, "ulimit -n"),
    ],
)
def test_a_failure_of_a_disk_is_reported_with_its_path_and_what_to_do(
    number: int, remedy: str
) -> None:
    words = with_advice(OSError(number, os.strerror(number), "/disk/current/0.log"))
    assert os.strerror(number) in words
    assert "'/disk/current/0.log'" in words
    assert remedy in words


def test_other_errors_are_shown_as_they_are() -> None:
    assert with_advice(LabkitError("it says what to do")) == "it says what to do"
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    assert with_advice(refused) == str(refused)
    odd = OSError(errno.ENOTTY, "odd", "/disk")
    assert with_advice(odd) == str(odd)
