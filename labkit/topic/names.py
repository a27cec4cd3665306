"""Names of topics and where the metadata store keeps them.

In Pulsar: `naming/TopicName.java`.
"""

import re
from urllib.parse import quote_plus, unquote_plus

from labkit.model.errors import BKIncorrectParameterException

_FULL = re.compile(r"persistent://([^/]+)/([^/]+)/([^/]+)")
_MANAGED_LEDGERS = "/managed-ledgers/"
_PARTITION = re.compile(r".+-partition-(\d+)")


def full_name(topic: str) -> str:
    """`persistent://tenant/namespace/topic`; a short name is one of `public/default`.

    Raises `BKIncorrectParameterException`.
    """
    if _FULL.fullmatch(topic):
        return topic
    if not topic or "/" in topic or ":" in topic:
        raise BKIncorrectParameterException(
            f"{topic!r} is no topic name; write persistent://tenant/namespace/topic, or a short"
            " name without '/' and ':'"
        )
    return f"persistent://public/default/{topic}"


def partition_name(topic: str, partition: int) -> str:
    """The full name of a topic's partition."""
    return f"{topic}-partition-{partition}"


def partition_of(topic: str) -> int:
    """The partition that a full name ends with; -1 if it names no partition."""
    match = _PARTITION.fullmatch(topic)
    return int(match[1]) if match else -1


def namespace_of(topic: str) -> str:
    """`tenant/namespace` of a full name."""
    match = _FULL.fullmatch(topic)
    assert match is not None, f"{topic} is no full topic name"
    return f"{match[1]}/{match[2]}"


def partitions_path(topic: str) -> str:
    """The node that holds a partitioned topic's number of partitions."""
    return f"/admin/partitioned-topics/{_path(topic)}"


def managed_ledger_path(topic: str) -> str:
    """The node that holds the chain of ledgers of a topic or partition."""
    return f"{_MANAGED_LEDGERS}{_path(topic)}"


def managed_ledger_name(path: str) -> str:
    """What the metadata of a ledger say of the chain at that path."""
    return path.removeprefix(_MANAGED_LEDGERS)


def topic_of_managed_ledger(name: str) -> str:
    """The full name of the topic or partition whose chain has that name."""
    tenant, namespace, domain, local = name.split("/", 3)
    return f"{domain}://{tenant}/{namespace}/{decoded(local)}"


def encoded(name: str) -> str:
    """A name as part of a path, as Java's `URLEncoder` writes it."""
    return quote_plus(name, safe="*").replace("~", "%7E")


def decoded(part: str) -> str:
    """The inverse."""
    return unquote_plus(part)


def _path(topic: str) -> str:
    match = _FULL.fullmatch(topic)
    assert match is not None, f"{topic} is no full topic name"
    tenant, namespace, local = match.groups()
    return f"{tenant}/{namespace}/persistent/{encoded(local)}"
