"""Extracts the release notes of a version from CHANGELOG.md."""

import re

from tools.site.pyodide import CannotBuildError


def release_notes(changelog: str, version: str) -> str:
    """Return the section about this version. Raises `CannotBuildError` if there is no such
    section.
    """
    section = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S
    )
    if section is None or not section[1].strip():
        raise CannotBuildError(f"CHANGELOG.md has no section for {version}; add one")
    return f"# labkit {version}\n\n{section[1].strip()}\n"
