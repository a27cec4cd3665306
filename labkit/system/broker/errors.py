"""Broker errors, each with the code that determines how the client reacts.

In Pulsar: `broker/service/BrokerServiceException.java`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from labkit.system.metadata.store import NodeTooLargeError
from labkit.system.model.errors import BKException, BKIncorrectParameterException, LabkitError
from labkit.system.model.proto.pulsar_pb2 import ServerError

_MAX_MESSAGE_LENGTH = 1000


class BrokerError(LabkitError):
    """An error that is sent to the client; `code` is a `ServerError`."""

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code


def no_partitioned_topic_error(topic: str) -> BrokerError:
    return BrokerError(ServerError.TopicNotFound, f"partitioned topic {topic} does not exist")


def code_of(error: LabkitError) -> ServerError:
    """Return the error code for the client, which looks the topic up again if the code is
    retriable.
    """
    if isinstance(error, BrokerError):
        return error.code
    if isinstance(error, BKException):
        return ServerError.PersistenceError
    if isinstance(error, NodeTooLargeError):
        return ServerError.NotAllowedError
    return ServerError.ServiceNotReady


def message_of(error: LabkitError) -> str:
    """Return the message for the client, truncated because it may quote a very long name."""
    return str(error)[:_MAX_MESSAGE_LENGTH]


@contextmanager
def invalid_names_as_broker_errors() -> Iterator[None]:
    try:
        yield
    except BKIncorrectParameterException as error:
        raise BrokerError(ServerError.InvalidTopicName, str(error)) from None
