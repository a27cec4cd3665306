"""labkit: Apache BookKeeper and Pulsar's storage, small and real, taught by running it.

Read the packages in this order; it is the path of an entry (ARCHITECTURE.md follows one function by
function).

    words
      model/       what travels: entries, ledger metadata, message ids, wire frames, errors
      trace/       what is remembered: flat events with causes
    the path of an entry, top to bottom
      pulsar/      a broker that speaks Pulsar's own protocol: clients' frames -> entries, and back
      topic/       messages -> batches -> entries of a chain of ledgers; cursors, ownership
      client/      entry -> write set -> acknowledgements -> confirmed
      bookie/      one node: add and read requests, group commit, fencing
      storage/     one disk: memtable and journal -> entry log -> index; LastLogMark, replay
    who keeps the cluster
      metadata/    ledger metadata, ids, registration, cookies: the znode tree
      autorecovery/  who is auditor, which ledgers lack copies, the worker that replaces them
    what makes it run
      server/      a bookie or broker put together: it registers and stays registered, collects
                   garbage, watches its disks, repairs ledgers; the same in both worlds
      live/        real files, TCP, ZooKeeper, a local cluster of processes
      sim/         the same system under virtual time: faults, the crash map, planted mistakes;
                   in `explore` scenarios are drawn, searched, shrunk, and tried in every order
    what looks at it
      check/       the promises of the system, each a named check over a trace
      shell/       what lies in a bookie's files, without a running bookie; what a cluster knows
      widgets/     pictures drawn from the trace
      spark/       topics and ledgers as tables: a data source, and jobs over message ids
    what teaches with all of it
      lessons/     the notebooks' sources, exercises that run in the real code, their checks
      workshop/    build a bookie or a client: a learner's file that grows, tried in both worlds
      grading/     a class's notebooks, each in a sandbox; the verdict outside
    on top
      cli          the command `labkit`
      intermixed   its parser: options may stand between arguments
      workshop_arguments   the options of `labkit client`
      lab          JupyterLab on a notebook
      doctor       what is missing or unfit, with the remedy
      own_python   labkit in other processes, such as a cluster's, whatever the working folder has
      printable    strangers' text on a terminal
      exit_codes   how the command ends, and what that says about a server

`import labkit` offers the names that a notebook needs most: `__init__.pyi` lists them.  Each is
imported when it is first used, so that a bookie's process starts without the pictures.
"""

import ast
from functools import cache
from importlib import import_module
from pkgutil import get_data

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    offered = _offered()
    if name == "__all__":
        return sorted(offered)
    if name not in offered:
        raise AttributeError(f"labkit offers no {name!r}; it offers {', '.join(sorted(offered))}")
    return getattr(import_module(offered[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_offered()})


@cache
def _offered() -> dict[str, str]:
    # The stub is the one list of these names, for type checkers and for this module.
    # Read through the loader: in Spark's workers this package is in a zip file.
    stub = ast.parse(get_data(__name__, "__init__.pyi") or b"")
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: f".{node.module}" for node in imports for alias in node.names}
