"""Write `docs/configuration.md` from the tables of keys.

Run: `.venv/bin/python docs/make_configuration.py`
"""

from pathlib import Path

from labkit.worlds.live.config.known_keys import BY_A_BOOKIE, KnownKeys, RefusedKey
from labkit.worlds.live.processes.broker_config import PULSAR_KEYS
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS

PAGE = Path(__file__).with_name("configuration.md")

_INTRODUCTION = """\
# Configuration files

`labkit bookie` and `labkit autorecovery` read BookKeeper's `bk_server.conf`, `labkit broker` reads
Pulsar's `broker.conf`, both with `--conf`. Names are those of BookKeeper 4.18.0 and of Pulsar
4.2.4; `python docs/make_configuration.py` writes this page from labkit's settings.

- An **obeyed** key does what it does there.
- A **refused** key changes what is stored, where, what is durable, or who may connect, and labkit
  does not do it. A server that finds it ends at once, with a line that names the key and the
  remedy. The values that say what labkit does anyway are accepted, and so is the default.
- labkit **does not use** any other key. Most of them tune or observe the Java implementation
  (threads, buffers, caches, metrics), balance load between brokers, or belong to a feature that is
  refused. A server names them in one line when it starts; for a key that looks like a misspelt one
  of the tables, the line says which.

An empty value is the same as no such line. Two values for one key are refused: BookKeeper would
take the first, Pulsar the last.

**Which wins.** An option on the command line goes before the file, and the file before the default:
`--id` before `bookieId`, `--zookeeper` before `metadataServiceUri` or `metadataStoreUrl`, `--port`
before `bookiePort` or `brokerServicePort`, `--web-port` before `webServicePort`,
`--flush-interval-ms` before `flushInterval`, and `--data` before `journalDirectories` and
`ledgerDirectories`. `--zookeeper` replaces the file's servers; a path or a ledger manager of the
file that contradicts it is refused, except the path `/ledgers`, which is the default.

The environment sets no keys: the variables `BK_...` and `PULSAR_PREFIX_...` belong to the scripts
of the official images, not to the servers. `labkit shell` reads no configuration file; its options
name the directories and the metadata. `LocalCluster` takes keys of the two files in its keywords
`autorecovery` and `broker_conf`; there a key that labkit refuses or does not use is an error.
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(
        [
            _INTRODUCTION,
            _file("`bk_server.conf`", BOOKKEEPER_KEYS),
            _file("`broker.conf`", PULSAR_KEYS),
            "A key of BookKeeper's client is prefixed with `bookkeeper_`. All keys that the first"
            " table\nrefuses are refused here, too, and so are keys of a bookie.\n",
        ]
    )


def _file(name: str, keys: KnownKeys) -> str:
    obeyed = ", ".join(f"`{key}`" for key in sorted(keys.obeyed))
    refused = (key for key in keys.refused.values() if not key.name.startswith("bookkeeper_"))
    rows = [_row(key) for key in sorted(refused, key=lambda key: key.name)]
    return (
        f"## {name}\n\n### Obeyed\n\n{obeyed}\n\n"
        "### Refused\n\n| key | accepted | why |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


def _row(key: RefusedKey) -> str:
    accepted = ", ".join(f"`{value}`" for value in key.accepted if value) or "nothing"
    by = " (autorecovery by itself ignores it)" if key.by == BY_A_BOOKIE else ""
    return f"| `{key.name}` | {accepted} | {key.why}{by} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
