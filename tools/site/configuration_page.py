"""Generates the page on configuration keys from labkit's settings.

    python -m tools.site.configuration_page

prints the page as Markdown.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field
from typing import Any

from benchmarks.measure import markdown_table
from labkit.system.model.settings import Setting
from labkit.worlds.live.config.known_keys import BY_A_BOOKIE, KnownKeys, RefusedKey
from labkit.worlds.live.processes.broker_config import PULSAR_KEYS
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS
from tools.site.lessons import Lesson, lessons

_INTRODUCTION = """\
# Configuration keys

`labkit bookie` and `labkit autorecovery` read BookKeeper's `bk_server.conf`, and `labkit broker`
reads Pulsar's `broker.conf`, both with the option `--conf`. The keys are those of BookKeeper 4.18.0
and Pulsar 4.2.4.

- An **obeyed** key has the same effect as in BookKeeper or Pulsar.
- A **refused** key would change what is stored, where, what is durable, or who may connect, in a
  way that labkit does not support. A server that reads one exits with an error that names the key
  and the remedy. The default, and values that describe what labkit does anyway, are accepted.
  A bookie refuses the keys marked \\*, and a separate autorecovery process ignores them.
- Every **other** key has no effect. Most of them tune or monitor the Java implementation, balance
  load between brokers, or belong to a refused feature. A server lists them in one log message at
  startup and suggests a correction for keys that look misspelt.

An empty value counts as no value. Two different values for one key are an error.

**Precedence.** Command-line options override the file, and the file overrides the defaults: `--id`
overrides `bookieId`, `--zookeeper` overrides `metadataServiceUri` and `metadataStoreUrl`, `--port`
overrides `bookiePort` and `brokerServicePort`, `--web-port` overrides `webServicePort`,
`--flush-interval-ms` overrides `flushInterval`, and `--data` overrides `journalDirectories` and
`ledgerDirectories`. `--zookeeper` replaces the servers in the file; a path or ledger manager in the
file that contradicts it is an error, except for the default path `/ledgers`.

Environment variables set no keys: `BK_...` and `PULSAR_PREFIX_...` belong to the scripts of the
official images. `labkit shell` reads no configuration file. `LocalCluster` accepts keys of the two
files in its arguments `autorecovery` and `broker_conf`; there, a refused or unused key is an error.

The column *lessons* links to the lessons that set the key or explain it, where you can see its
effect.
"""

_CLIENT = "bookkeeper_"


def configuration_page() -> str:
    words = {f"[{each.number}](../course/{each.path.name})": _names_in(each) for each in lessons()}
    return "\n".join(
        [
            _INTRODUCTION,
            _file("`bk_server.conf`", BOOKKEEPER_KEYS, words),
            _file("`broker.conf`", PULSAR_KEYS, words),
            "### Refused keys of the broker's BookKeeper client\n",
            "Keys for BookKeeper's client have the prefix `bookkeeper_`. Every key that the first"
            " table refuses\nis refused with this prefix, too, and so are keys that only a bookie"
            " has:\n",
            ", ".join(
                f"`{name}`" for name in sorted(PULSAR_KEYS.refused) if name.startswith(_CLIENT)
            ),
            "",
        ]
    )


def _names_in(lesson: Lesson) -> set[str]:
    """Return the words in the lesson, and `name=` for each argument or field that the lesson
    sets.
    """
    text = lesson.path.read_text(encoding="utf-8")
    return {*re.findall(r"\w+", text), *re.findall(r"(\w+=)(?!=)", text)}


def _file(name: str, keys: KnownKeys, lesson_words: Mapping[str, set[str]]) -> str:
    obeyed = [_obeyed_row(key, *keys.obeyed[key], lesson_words) for key in sorted(keys.obeyed)]
    refused = [
        _refused_row(key)
        for name, key in sorted(keys.refused.items())
        if not name.startswith(_CLIENT)
    ]
    return (
        f"## {name}\n\n### Obeyed\n\n{markdown_table(('key', 'default', 'lessons'), obeyed)}\n"
        f"### Refused\n\n{markdown_table(('key', 'accepted values', 'reason'), refused)}"
    )


def _obeyed_row(
    key: str, field: Field[Any], setting: Setting, lesson_words: Mapping[str, set[str]]
) -> tuple[str, str, str]:
    default: Any = field.default
    if setting.unit > 1:
        default //= setting.unit
    shown = "" if default in (MISSING, None, "", ()) else f"`{_as_in_a_file(default)}`"
    links = [link for link, words in lesson_words.items() if words & {key, f"{field.name}="}]
    return f"`{key}`", shown, ", ".join(links)


def _as_in_a_file(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _refused_row(key: RefusedKey) -> tuple[str, str, str]:
    accepted = ", ".join(f"`{value}`" for value in key.accepted if value) or "none"
    by = r" \*" if key.by == BY_A_BOOKIE else ""
    return f"`{key.name}`{by}", accepted, key.why


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
