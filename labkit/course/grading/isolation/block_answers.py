"""Makes labkit's own answers to the exercises unavailable in the submission's process.

The code of these functions is replaced: calling one of them, under any name, raises an error that
says that the answer is labkit's own. Trials run outside the sandbox, where labkit works as usual.

Importing an exercise takes a second of processor time, and most submissions import none. Therefore,
a module that has not been imported yet is changed only when the submission imports it.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def block_answers(names: Iterable[str]) -> None:
    """Replace the code of these functions (given as `module:name`) in this process; this cannot be
    undone.
    """
    waiting: dict[str, list[str]] = {}
    for name in names:
        module, _, qualified_name = name.partition(":")
        waiting.setdefault(module, []).append(qualified_name)
    for module in waiting.keys() & sys.modules.keys():
        _block(sys.modules[module], waiting.pop(module))
    sys.meta_path.insert(0, _BlockingFinder(waiting))


class _BlockingFinder:
    """Finds the modules that define answers, and blocks the answers right after each import."""

    def __init__(self, waiting: dict[str, list[str]]) -> None:
        self._waiting = waiting

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._waiting:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_block(module: ModuleType) -> None:
            execute(module)
            _block(module, self._waiting[name])

        loader.exec_module = execute_and_block
        return spec


def _block(module: ModuleType, qualified_names: Iterable[str]) -> None:
    for name in qualified_names:
        function: Any = reduce(getattr, name.split("."), module)
        # Replace the code, not the module's attribute: other modules may have imported the
        # function.
        function.__code__ = _refusing(name, function)


def _refusing(name: str, function: Callable[..., Any]) -> Any:
    """Return code that raises an error; the code's function name and file name identify it as
    labkit's.
    """
    refusal = f"{name} is labkit's own answer: write your own."
    names: dict[str, Any] = {}
    exec(f"def refuse(*_, **__): raise RuntimeError({refusal!r})", names)
    code = function.__code__
    return names["refuse"].__code__.replace(co_name=code.co_name, co_filename=code.co_filename)
