"""Write a run in TLA+: the module TraceData and TLC's configuration."""

from collections.abc import Iterable

from tests.tla.amendments import Amendment
from tests.tla.ledger_states import Client, Ledger, Run, Segments, State

NAME = "LedgerTrace"

_MODEL_VALUES = (
    *("AddEntryRequestMessage", "AddEntryResponseMessage", "FenceRequestMessage"),
    *("FenceResponseMessage", "ReadRequestMessage", "ReadResponseMessage"),
    *("STATUS_OPEN", "STATUS_CLOSED", "STATUS_IN_RECOVERY", "CLIENT_WITHDRAWN"),
    *("RECOVERY_ABORTED", "NeedMoreResponses", "Nil", "NoSuchEntry", "Unknown", "OK"),
)


def trace_data(run: Run, amendments: Iterable[Amendment]) -> str:
    """Return the module with the run's states."""
    states = ",\n".join(map(_state, run.states))
    return (
        "---- MODULE TraceData ----\nEXTENDS TLC\n"
        f"Arrivals == << {', '.join(map(_text, run.arrivals))} >>\n"
        f"Amendments == {_set(each.name for each in amendments)}\n"
        f"Trace == <<\n{states}\n>>\n====\n"
    )


def configuration(run: Run, amendments: Iterable[Amendment]) -> str:
    """Return TLC's configuration, which consists of the run's constants and the operators that are
    replaced.
    """
    constants = {
        "Bookies": _set(run.bookies),
        "Clients": _set(run.clients),
        "WriteQuorum": str(run.write_quorum),
        "AckQuorum": str(run.ack_quorum),
        "SendLimit": str(run.entries),
        "InflightLimit": str(run.entries),
        **{name: name for name in _MODEL_VALUES},
    }
    replaced = {"SelectEnsemble": "EnsembleOfTheRun"}
    replaced.update(each.replaces for each in amendments if each.replaces is not None)
    lines = (
        "SPECIFICATION TraceSpec",
        "CONSTANTS",
        *(f"  {name} = {value}" for name, value in constants.items()),
        *(f"  {name} <- {other}" for name, other in replaced.items()),
        "CONSTRAINT Progress",
        "INVARIANT NotExplained",
    )
    return "\n".join(lines) + "\n"


def _state(state: State) -> str:
    confirmed = {name: client.confirmed for name, client in state.ledger.clients.items()}
    return _record(
        seen=_ledger(state.ledger),
        confirmed=_function({name: str(entry) for name, entry in confirmed.items()}),
        arrived=str(state.arrived),
    )


def _ledger(ledger: Ledger) -> str:
    return _record(
        stage=_text(ledger.stage),
        last=str(ledger.last),
        segments=_segments(ledger.segments),
        stored=_function({name: _set(entries) for name, entries in ledger.stored.items()}),
        fenced=_set(ledger.fenced),
        clients=_function({name: _client(client) for name, client in ledger.clients.items()}),
    )


def _client(client: Client) -> str:
    return _record(
        begun=str(client.begun).upper(),
        withdrawn=str(client.withdrawn).upper(),
        reads=str(client.reads).upper(),
        pushed=str(client.pushed),
        segments=_segments(client.segments),
    )


def _segments(segments: Segments) -> str:
    each = (_record(first=str(first), bookies=_set(bookies)) for first, bookies in segments)
    return f"<< {', '.join(each)} >>"


def _record(**fields: str) -> str:
    return f"[{', '.join(f'{name} |-> {value}' for name, value in fields.items())}]"


def _function(values: dict[str, str]) -> str:
    return f"({' @@ '.join(f'{_text(name)} :> {value}' for name, value in values.items())})"


def _set(values: Iterable[object]) -> str:
    return f"{{{', '.join(sorted(map(_text, values)))}}}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"<<{', '.join(map(_text, value))}>>"
    return f'"{value}"' if isinstance(value, str) else str(value)
