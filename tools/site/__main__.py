"""Builds the site: `python -m tools.site FOLDER`."""

import logging
import sys
from pathlib import Path

from tools.site.build import build_site
from tools.site.pyodide import ROOT, CannotBuildError


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("tools.site").setLevel(logging.INFO)
    target = Path(arguments[0] if arguments else "site")
    try:
        build_site(target, ROOT / "build" / "site")
    except CannotBuildError as error:
        sys.exit(f"labkit: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
