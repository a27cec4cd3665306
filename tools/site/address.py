"""The address at which the project is published, as stored in pyproject.toml and README.md.

python -m tools.site.address https://github.com/owner/name     write it to both files

Until the project has been published, it has no address, and pages link neither to the project nor
to Binder.
"""

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from labkit.worlds.sim.run_link import site_of

_ROOT = Path(__file__).parents[2]
_URLS = re.compile(r"(?m)^(\[project\.urls\]\n(?:#.*\n)*)(?:Repository = .*\n)?")
README_BLOCK = re.compile(r"(?s)(<!-- address: [^\n]*-->\n).*(<!-- end of address -->)")


@dataclass(frozen=True, slots=True)
class Address:
    """`repository` has the form `https://github.com/<owner>/<name>`."""

    repository: str

    @classmethod
    def of_project(cls) -> "Address | None":
        """Return the address in pyproject.toml, or None if the project has not been published."""
        text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
        repository = tomllib.loads(text)["project"].get("urls", {}).get("Repository")
        return cls(repository) if repository else None

    @property
    def site(self) -> str:
        return site_of(self.repository)

    def binder(self, notebook: str) -> str:
        owner, name = self.repository.rsplit("/", 2)[1:]
        path = quote(f"lab/tree/notebooks/{notebook}", safe="")
        return f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath={path}"

    def file(self, path: str) -> str:
        return f"{self.repository}/blob/HEAD/{path}"

    def badges(self) -> str:
        tests = f"{self.repository}/actions/workflows/tests.yml"
        binder = self.binder("00-tour.ipynb")
        return (
            f"[![tests]({tests}/badge.svg)]({tests})\n"
            f"[![Binder](https://mybinder.org/badge_logo.svg)]({binder})\n"
            f"[![licence](https://img.shields.io/badge/licence-Apache--2.0-blue)](LICENSE)\n\n"
            f"[Open the course in a browser tab]({self.site}), with nothing to install, or "
            f"[on Binder]({binder}), with real processes.\n"
        )


def change(repository: str) -> None:
    """Write the address to pyproject.toml and README.md. Raises `ValueError`."""
    if not repository.startswith("https://") or repository.count("/") != 4:
        raise ValueError(
            f"expected a URL such as https://github.com/owner/name, got {repository!r}"
        )
    _substitute("pyproject.toml", _URLS, rf'\g<1>Repository = "{repository}"\n')
    _substitute("README.md", README_BLOCK, rf"\g<1>{Address(repository).badges()}\g<2>")


def _substitute(name: str, pattern: re.Pattern[str], replacement: str) -> None:
    path = _ROOT / name
    text, count = pattern.subn(replacement, path.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"expected one address in {name}, found {count}")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    change(*sys.argv[1:])
