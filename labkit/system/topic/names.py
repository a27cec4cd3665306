"""Names of topics, and their paths in the metadata store.

Tenant and namespace names consist of letters, digits and `-=:._`. Topic names may contain any
character. No name may be `.` or `..`. Unlike Pulsar, labkit limits the length of names, so that no
request becomes too large for ZooKeeper.

In Pulsar: `naming/TopicName.java`, `NamedEntity.java`.
"""

import re
from urllib.parse import quote_plus, unquote_plus

from labkit.system.model.errors import BKIncorrectParameterException

MAX_NAME_BYTES = 2048
"""The maximum length of an encoded subscription name, and of an encoded topic name including its
tenant and namespace.
"""

_ENTITY = r"(?!\.{1,2}(?:/|$))[-=:.\w]+"
_NAMESPACE = re.compile(rf"{_ENTITY}/{_ENTITY}", re.ASCII)
_FULL = re.compile(r"persistent://([^/]+)/([^/]+)/([^/]+)")
_MANAGED_LEDGERS = "/managed-ledgers/"
_PARTITION = re.compile(r".+-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)
_LARGEST_PARTITION = 2**31 - 1


class InvalidNameError(BKIncorrectParameterException):
    """The name of a topic, namespace, subscription or producer is invalid."""


def full_name(topic: str) -> str:
    """Return `persistent://tenant/namespace/topic`; a short name belongs to `public/default`."""
    name = topic
    if not _FULL.fullmatch(topic):
        if not topic or "/" in topic or ":" in topic:
            raise InvalidNameError(
                f"{shorten(topic)} is not a topic name; write persistent://tenant/namespace/topic,"
                " or a short name without '/' and ':'"
            )
        name = f"persistent://public/default/{topic}"
    check_namespace(namespace_of(name))
    check_name(name.rsplit("/", 1)[1], "topic")
    if len(_path(name)) > MAX_NAME_BYTES:
        raise _too_long(topic, "topic")
    return name


def check_namespace(namespace: str) -> None:
    """Raise `InvalidNameError` unless the text is a valid `tenant/namespace`."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidNameError(
            f"{shorten(namespace)} is not a valid namespace; write tenant/namespace, where each"
            " part consists of letters, digits and -=:._ and is neither '.' nor '..'"
        )
    if len(namespace) > MAX_NAME_BYTES:
        raise _too_long(namespace, "namespace")


def check_name(name: str, what: str) -> None:
    """Raise `InvalidNameError` if a topic, subscription or producer name is not valid."""
    if not name.strip() or name in (".", ".."):
        raise InvalidNameError(f"{shorten(name)} is not a valid {what} name")
    if len(encode_name(name)) > MAX_NAME_BYTES:
        raise _too_long(name, what)


def shorten(text: str) -> str:
    """Quote a string, and shorten it for an error message."""
    return repr(text) if len(text) <= 100 else f"{text[:80]!r}... ({len(text)} characters)"


def _too_long(name: str, what: str) -> InvalidNameError:
    return InvalidNameError(
        f"the {what} {shorten(name)} is too long: as encoded in the metadata store,"
        f" it may have at most {MAX_NAME_BYTES} bytes"
    )


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}-partition-{partition}"


def partition_of(topic: str) -> int:
    """Return the partition index at the end of a full name, or -1 if there is none."""
    match = _PARTITION.fullmatch(topic)
    partition = int(match[1]) if match else -1
    return partition if partition <= _LARGEST_PARTITION else -1


def without_partition(topic: str) -> str:
    """Return the full name of the partitioned topic that contains a partition."""
    return topic.removesuffix(partition_name("", partition_of(topic)))


def namespace_of(topic: str) -> str:
    tenant, namespace, _ = _split(topic)
    return f"{tenant}/{namespace}"


def partitions_path(topic: str) -> str:
    return f"/admin/partitioned-topics/{_path(topic)}"


def managed_ledger_path(topic: str) -> str:
    return f"{_MANAGED_LEDGERS}{_path(topic)}"


def managed_ledger_name(path: str) -> str:
    """Return the chain's name, as stored in the metadata of its ledgers."""
    return path.removeprefix(_MANAGED_LEDGERS)


def topic_of_managed_ledger(name: str) -> str:
    """Return the full name of the topic or partition, given the name of its chain."""
    tenant, namespace, domain, local = name.split("/", 3)
    return f"{domain}://{tenant}/{namespace}/{decode_name(local)}"


decode_name = unquote_plus


def encode_name(name: str) -> str:
    """Encode a name in the same way as Java's `URLEncoder`."""
    return quote_plus(name, safe="*").replace("~", "%7E")


def _path(topic: str) -> str:
    tenant, namespace, local = _split(topic)
    return f"{tenant}/{namespace}/persistent/{encode_name(local)}"


def _split(topic: str) -> tuple[str, ...]:
    match = _FULL.fullmatch(topic)
    assert match is not None, f"{topic} is not a full topic name"
    return match.groups()
