"""Names of topics and where the metadata store keeps them.

A tenant and a namespace are made of letters, digits and `-=:._`; a topic's name is free.
The store takes neither `.` nor `..` as a name.  Pulsar has no limit on a name's length; here it is
`LONGEST_NAME` in the store, so that no name makes a request too large for ZooKeeper.

In Pulsar: `naming/TopicName.java`, `NamedEntity.java`.
"""

import re
from urllib.parse import quote_plus, unquote_plus

from labkit.system.model.errors import BKIncorrectParameterException

LONGEST_NAME = 2048
"""Of a topic with tenant and namespace, or of a subscription: bytes, as the store has it."""

_ENTITY = r"(?!\.{1,2}(?:/|$))[-=:.\w]+"
_NAMESPACE = re.compile(rf"{_ENTITY}/{_ENTITY}", re.ASCII)
_FULL = re.compile(r"persistent://([^/]+)/([^/]+)/([^/]+)")
_MANAGED_LEDGERS = "/managed-ledgers/"
_PARTITION = re.compile(r".+-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)
_LARGEST_PARTITION = 2**31 - 1


def full_name(topic: str) -> str:
    """`persistent://tenant/namespace/topic`; a short name is one of `public/default`.

    Raises `BKIncorrectParameterException`.
    """
    name = topic
    if not _FULL.fullmatch(topic):
        if not topic or "/" in topic or ":" in topic:
            raise BKIncorrectParameterException(
                f"{shortened(topic)} is not a topic name; write persistent://tenant/namespace/topic,"
                " or a short name without '/' and ':'"
            )
        name = f"persistent://public/default/{topic}"
    check_namespace(namespace_of(name))
    check_name(name.rsplit("/", 1)[1], "topic")
    if len(_path(name)) > LONGEST_NAME:
        raise _too_long(topic, "topic")
    return name


def check_namespace(namespace: str) -> None:
    """Raises `BKIncorrectParameterException` if it is not `tenant/namespace`."""
    if not _NAMESPACE.fullmatch(namespace):
        raise BKIncorrectParameterException(
            f"{shortened(namespace)} is not a namespace; write tenant/namespace, each of letters,"
            " digits and -=:._ and neither '.' nor '..'"
        )
    if len(namespace) > LONGEST_NAME:
        raise _too_long(namespace, "namespace")


def check_name(name: str, what: str) -> None:
    """Raises `BKIncorrectParameterException` for a topic or subscription that cannot be stored."""
    if not name.strip() or name in (".", ".."):
        raise BKIncorrectParameterException(f"{shortened(name)} is not a name of a {what}")
    if len(encoded(name)) > LONGEST_NAME:
        raise _too_long(name, what)


def shortened(text: str) -> str:
    """The text on one line and not too long, for an error message."""
    return repr(text) if len(text) <= 100 else f"{text[:80]!r}... ({len(text)} characters)"


def _too_long(name: str, what: str) -> BKIncorrectParameterException:
    return BKIncorrectParameterException(
        f"the {what} {shortened(name)} is too long: at most {LONGEST_NAME} bytes fit, as they are"
        " written in the metadata store"
    )


def partition_name(topic: str, partition: int) -> str:
    """The full name of a topic's partition."""
    return f"{topic}-partition-{partition}"


def partition_of(topic: str) -> int:
    """The partition that a full name ends with; -1 if it names no partition."""
    match = _PARTITION.fullmatch(topic)
    partition = int(match[1]) if match else -1
    return partition if partition <= _LARGEST_PARTITION else -1


def namespace_of(topic: str) -> str:
    """`tenant/namespace` of a full name."""
    match = _FULL.fullmatch(topic)
    assert match is not None, f"{topic} is not a full topic name"
    return f"{match[1]}/{match[2]}"


def partitions_path(topic: str) -> str:
    """The node that holds a partitioned topic's number of partitions."""
    return f"/admin/partitioned-topics/{_path(topic)}"


def managed_ledger_path(topic: str) -> str:
    """The node that holds the chain of ledgers of a topic or partition."""
    return f"{_MANAGED_LEDGERS}{_path(topic)}"


def managed_ledger_name(path: str) -> str:
    """The name in a ledger's metadata of the chain at that path."""
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
    assert match is not None, f"{topic} is not a full topic name"
    tenant, namespace, local = match.groups()
    return f"{tenant}/{namespace}/persistent/{encoded(local)}"
