"""Make the fixture of an in-process bookie available to the tests of the client."""

from tests.system.bookie.conftest import node

__all__ = ["node"]
