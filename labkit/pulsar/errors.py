"""What a broker refuses, with the code that tells a client what to make of it.

In Pulsar: `broker/service/BrokerServiceException.java`.
"""

from labkit.model.errors import BKException, LabkitError
from labkit.model.proto.pulsar_pb2 import ServerError


class BrokerError(LabkitError):
    """Becomes the ERROR that answers a request; `code` is one of `ServerError`."""

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: LabkitError) -> ServerError:
    """What to tell a client: whatever may pass by itself makes it look the topic up again."""
    if isinstance(error, BrokerError):
        return error.code
    if isinstance(error, BKException):
        return ServerError.PersistenceError
    return ServerError.ServiceNotReady
