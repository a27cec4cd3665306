"""The names of the things that marks show. All marks of the same thing are highlighted together, in
every view of a run.

A mark's `kin` is a list of such names, separated by spaces, so no name contains a space.
"""


def entry_kin(ledger: int | str, entry: int | str) -> str:
    return f"e{ledger}-{entry}"


def ledger_kin(ledger: int) -> str:
    return f"l-{ledger}"


def node_kin(name: str) -> str:
    return f"n-{'-'.join(name.split())}"
