"""An argument parser that accepts options between positional arguments, as GNU tools do."""

import argparse
from collections.abc import Callable
from typing import Any


class IntermixedParser(argparse.ArgumentParser):
    """Accepts command lines such as `labkit grade ada --out reports bob`, in which the positional
    arguments are `ada` and `bob`.

    If options appear within a list of positional arguments, argparse accepts only the arguments
    before the first option. `parse_known_intermixed_args` accepts all of them, but subparsers do
    not call it.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._is_plain = False
        self._fill: Callable[[argparse.ArgumentParser], None] | None = None
        super().__init__(*arguments, **options)

    def fill_when_used(self, fill: Callable[[argparse.ArgumentParser], None]) -> None:
        """Call `fill`, which adds the arguments of this subcommand, only if the subcommand is used.

        `fill` can therefore import large modules.
        """
        self._fill = fill

    def add_subparsers(self, **options: Any) -> Any:
        """Add subparsers that accept intermixed options. This parser itself no longer accepts
        them.
        """
        self._is_plain = True
        return super().add_subparsers(**options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # Before Python 3.12, `parse_known_intermixed_args` calls this method recursively.
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        if self._is_plain:
            return super().parse_known_args(args, namespace)
        self._is_plain = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_plain = False
