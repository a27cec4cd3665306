"""Tests that the packages for a browser's Python follow from labkit's own dependencies and pins."""

import zipfile
from pathlib import Path

from tools.site.pyodide import Wheel

METADATA = """Metadata-Version: 2.4
Name: A.Package
Version: 1.2
Requires-Dist: everywhere>=1
Requires-Dist: Only_Here; sys_platform == 'emscripten'
Requires-Dist: servers; sys_platform != 'emscripten'
Requires-Dist: old; python_version < '3.12'
Requires-Dist: chosen; extra == 'more'
"""


def test_a_wheel_needs_what_its_metadata_names_for_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "a_package-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a_package/__init__.py", "")
        archive.writestr("single.py", "")
        archive.writestr("a_package-1.2.dist-info/METADATA", METADATA)
    wheel = Wheel.read(path)
    assert (wheel.name, wheel.version) == ("a-package", "1.2")
    assert wheel.needs == ("everywhere", "only-here")
