"""A broker's refusals, each with the code by which a client knows what to do.

In Pulsar: `broker/service/BrokerServiceException.java`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from labkit.system.metadata.store import NodeTooLargeError
from labkit.system.model.errors import BKException, BKIncorrectParameterException, LabkitError
from labkit.system.model.proto.pulsar_pb2 import ServerError

_LONGEST_TEXT = 1000


class BrokerError(LabkitError):
    """Becomes the ERROR that answers a request; `code` is one of `ServerError`."""

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code


def no_partitioned_topic(topic: str) -> BrokerError:
    """Return the error for a partitioned topic that does not exist."""
    return BrokerError(ServerError.TopicNotFound, f"there is no partitioned topic {topic}")


def code_of(error: LabkitError) -> ServerError:
    """The error code for a client: a transient one makes it look the topic up again."""
    if isinstance(error, BrokerError):
        return error.code
    if isinstance(error, BKException):
        return ServerError.PersistenceError
    if isinstance(error, NodeTooLargeError):
        return ServerError.NotAllowedError
    return ServerError.ServiceNotReady


def text_of(error: LabkitError) -> str:
    """The sentence for a client, shortened: an error may quote a very long name that it sent."""
    return str(error)[:_LONGEST_TEXT]


@contextmanager
def refused_names() -> Iterator[None]:
    """Turn the error for an invalid name into a `BrokerError`."""
    try:
        yield
    except BKIncorrectParameterException as error:
        raise BrokerError(ServerError.InvalidTopicName, str(error)) from None
