"""A client may have a bookie in this process."""

from tests.system.bookie.conftest import node

__all__ = ["node"]
