"""The address where the project is published: one line of pyproject.toml; all links use it.

python -m tools.site.address https://github.com/owner/name     changes it, and README's links
"""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Address:
    """repository: `https://github.com/<owner>/<name>`."""

    repository: str

    @classmethod
    def of_project(cls) -> "Address":
        """The address in pyproject.toml."""
        text = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        return cls(project["urls"]["Repository"])

    @property
    def site(self) -> str:
        """The site's address on GitHub Pages."""
        owner, name = self.repository.rsplit("/", 2)[1:]
        return f"https://{owner.lower()}.github.io/{name}/"

    def binder(self, notebook: str) -> str:
        """The address of a notebook in JupyterLab on mybinder.org."""
        owner, name = self.repository.rsplit("/", 2)[1:]
        path = quote(f"lab/tree/notebooks/{notebook}", safe="")
        return f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD?urlpath={path}"

    def file(self, path: str) -> str:
        """The address of a file of the repository."""
        return f"{self.repository}/blob/HEAD/{path}"

    def links(self) -> tuple[str, str, str]:
        """The addresses in README.md: of the site, of Binder, and of the repository."""
        return self.site, self.binder("00-tour.ipynb"), self.repository


def change(repository: str) -> None:
    """Write another address into pyproject.toml and README.md.  Raises `ValueError`."""
    if not repository.startswith("https://") or repository.count("/") != 4:
        raise ValueError(f"{repository!r} is not an address such as https://github.com/owner/name")
    old, new = Address.of_project(), Address(repository)
    for name in ("pyproject.toml", "README.md"):
        path = _ROOT / name
        text = path.read_text(encoding="utf-8")
        for before, after in zip(old.links(), new.links(), strict=True):
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    change(*sys.argv[1:])
