"""Mutants that change nothing that the system promises, each with its reason."""

EQUIVALENT: dict[str, str] = {}
