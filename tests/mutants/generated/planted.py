"""A pytest plugin that compiles one module of labkit from a different source file.

The environment variable `LABKIT_MUTANT` is `MODULE.py=SOURCE.py`.
"""

import importlib.machinery
import os
from pathlib import Path
from types import CodeType

_MODULE, _, _SOURCE = os.environ["LABKIT_MUTANT"].partition("=")
_healthy = importlib.machinery.SourceFileLoader.get_code


def _get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
    if loader.path == _MODULE:
        return compile(Path(_SOURCE).read_text(encoding="utf-8"), _MODULE, "exec")
    return _healthy(loader, name)


importlib.machinery.SourceFileLoader.get_code = _get_code  # type: ignore[assignment, method-assign]
