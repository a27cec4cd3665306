"""Broker errors, each with the code that determines how the client reacts.

In Pulsar: `broker/service/BrokerServiceException.java`.
"""

from labkit.system.metadata.store import NodeTooLargeError
from labkit.system.model.errors import BKException, LabkitError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.names import InvalidNameError


class BrokerError(LabkitError):
    """An error that is sent to the client; `code` is a `ServerError`."""

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotAllowedError(BrokerError):
    def __init__(self, message: str) -> None:
        super().__init__(ServerError.NotAllowedError, message)


class ServiceNotReadyError(BrokerError):
    """Tells the client to look up the topic again."""

    def __init__(self, message: str) -> None:
        super().__init__(ServerError.ServiceNotReady, message)


class TopicNotFoundError(BrokerError):
    def __init__(self, message: str) -> None:
        super().__init__(ServerError.TopicNotFound, message)


def code_of(error: LabkitError) -> ServerError:
    """Return the error code. If it is retriable, the client looks the topic up again."""
    if isinstance(error, BrokerError):
        return error.code
    if isinstance(error, InvalidNameError):
        return ServerError.InvalidTopicName
    if isinstance(error, BKException):
        return ServerError.PersistenceError
    if isinstance(error, NodeTooLargeError):
        return ServerError.NotAllowedError
    return ServerError.ServiceNotReady
