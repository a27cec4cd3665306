"""Write `docs/configuration.md` from the tables of keys.

Run: `.venv/bin/python docs/make_configuration.py`
"""

from pathlib import Path

from labkit.worlds.live.config.known_keys import (
    BY_A_BOOKIE,
    HARMLESS,
    OBEYED,
    REFUSED,
    KnownKey,
    Table,
    bookkeeper_keys,
    pulsar_keys,
)

PAGE = Path(__file__).with_name("configuration.md")

_INTRODUCTION = """\
# Configuration files

`labkit bookie` and `labkit autorecovery` read BookKeeper's `bk_server.conf`, `labkit broker` reads
Pulsar's `broker.conf`, both with `--conf`. The tables below have every key of BookKeeper 4.18.0 and
of Pulsar 4.2.4; `python docs/make_configuration.py` writes this page from them.

- An **obeyed** key does what it does there.
- A **refused** key changes what is stored, where, what is durable, or who may connect, and labkit
  does not do it. A server that finds it ends at once, with a line that names the key and the
  remedy. The values that say what labkit does anyway are accepted, and so is the default.
- A **harmless** key tunes or observes the Java implementation. It is passed over, and a line names
  it.
- An unknown key is passed over, as by BookKeeper and Pulsar, and another line names it, with the
  key that may be meant.

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
`autorecovery` and `broker_conf`; there a refused or unknown key is an error.
"""


def page() -> str:
    """The whole page as Markdown."""
    pulsar = {
        name: key
        for name, key in pulsar_keys().items()
        if not name.startswith("bookkeeper_") or key.kind == OBEYED
    }
    return "\n".join(
        [
            _INTRODUCTION,
            _file("`bk_server.conf`", bookkeeper_keys()),
            _file("`broker.conf`", pulsar),
            "After `bookkeeper_` stands a key of BookKeeper's client: what the first table refuses"
            " or\npasses over is refused or passed over here, too.\n",
        ]
    )


def _file(name: str, table: Table) -> str:
    keys = sorted(table.values(), key=lambda key: key.name)
    obeyed = ", ".join(f"`{key.name}`" for key in keys if key.kind == OBEYED)
    refused = [_row(key) for key in keys if key.kind in (REFUSED, BY_A_BOOKIE)]
    reasons = dict.fromkeys(key.why for key in keys if key.kind == HARMLESS)
    harmless = [
        f"- {why}: " + ", ".join(f"`{key.name}`" for key in keys if key.why == why)
        for why in reasons
    ]
    return (
        f"## {name}\n\n### Obeyed\n\n{obeyed}\n\n"
        f"### Refused\n\n| key | accepted | why |\n| --- | --- | --- |\n"
        + "\n".join(refused)
        + "\n\n"
        "### Harmless\n\n" + "\n".join(harmless) + "\n"
    )


def _row(key: KnownKey) -> str:
    accepted = ", ".join(f"`{value}`" for value in key.accepted if value) or "nothing"
    by = " (autorecovery by itself passes it over)" if key.kind == BY_A_BOOKIE else ""
    return f"| `{key.name}` | {accepted} | {key.why}{by} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
