"""A client may have a bookie in this process."""

from tests.bookie.conftest import node

__all__ = ["node"]
