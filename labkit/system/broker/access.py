"""Producer access modes: several producers share a topic, or one has exclusive access to it.

    Shared                  fails if an exclusive producer is connected or waiting
    Exclusive               fails if any other producer is connected or waiting
    WaitForExclusive        waits until all connected and all earlier waiting producers have left
    ExclusiveWithFencing    fences all other producers, then gets exclusive access

Each exclusive producer gets the topic's next epoch, which is stored with the managed ledger.
A producer that reconnects sends its epoch. If the topic's epoch has increased in the meantime,
another producer has had exclusive access, so the reconnecting producer is fenced and can no longer
send.

In Pulsar: `broker/service/AbstractTopic.java` (`incrementTopicEpochIfNeeded`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from labkit.system.broker.errors import BrokerError, ServiceNotReadyError
from labkit.system.model.proto.pulsar_pb2 import ProducerAccessMode, ServerError
from labkit.system.topic.managed_ledger import ManagedLedger

EPOCH_PROPERTY = "pulsar.topic.epoch"


@dataclass(slots=True, eq=False)
class AccessRequest:
    """A producer's request for access to a topic."""

    name: str
    mode: ProducerAccessMode
    epoch: int | None
    """None until the producer gets exclusive access, unless the producer is reconnecting."""
    probe: Callable[[], None]
    """Tests whether the producer's client is still alive."""
    disconnect: Callable[[], None] = lambda: None
    """Called when the producer is fenced."""

    @property
    def is_exclusive(self) -> bool:
        return self.mode != ProducerAccessMode.Shared


class ProducerAccess:
    def __init__(self, ledger: ManagedLedger) -> None:
        self._ledger = ledger
        self._granted: dict[AccessRequest, None] = {}
        self._waiting: dict[AccessRequest, asyncio.Future[None]] = {}
        self._epoch_lock = asyncio.Lock()

    @property
    def epoch(self) -> int | None:
        """The epoch of the last exclusive producer, or None if there has never been one."""
        text = self._ledger.properties.get(EPOCH_PROPERTY)
        return None if text is None else int(text)

    async def acquire(self, request: AccessRequest, on_queued: Callable[[], None]) -> None:
        """Wait until the producer has access. Call `on_queued` if other producers must leave first.

        The caller must call `release` later, even if this raises an error. Raises `BrokerError` if
        the producer is rejected or fenced, and the same exceptions as `ManagedLedger.set_property`.
        """
        self._check_allowed(request)
        if request.mode == ProducerAccessMode.ExclusiveWithFencing:
            self._disconnect_all(request.name)
        if request.is_exclusive and self._granted:
            self._probe_all()
            future = self._waiting[request] = asyncio.get_running_loop().create_future()
            on_queued()
            await future  # `release` completes this future after the other producers have left.
        else:
            self._granted[request] = None
        if request.is_exclusive:
            await self._start_epoch(request)

    def release(self, request: AccessRequest) -> None:
        """Remove a producer. When no producer is left, the next waiting producer gets access."""
        if (future := self._waiting.pop(request, None)) is not None:
            future.set_exception(_left_error(request))
        elif request in self._granted:
            del self._granted[request]
            if self._waiting and not self._granted:
                next_request = next(iter(self._waiting))
                self._granted[next_request] = None
                self._waiting.pop(next_request).set_result(None)

    def close(self) -> None:
        self.fail_waiting(
            ServiceNotReadyError(f"{self._ledger.name} is being closed: look it up again")
        )

    def fail_waiting(self, error: BrokerError) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(error)

    def _check_allowed(self, request: AccessRequest) -> None:
        others = [*self._granted, *self._waiting]
        exclusive = [each for each in others if each.is_exclusive]
        if not request.is_exclusive and exclusive:
            self._probe_all()
            raise BrokerError(
                ServerError.ProducerBusy,
                f"producer {exclusive[0].name} has exclusive access to {self._ledger.name}",
            )
        if request.is_exclusive and request.epoch is not None and request.epoch < (self.epoch or 0):
            raise _fenced_error(
                f"{self._ledger.name} is in epoch {self.epoch}: another producer has had exclusive"
                f" access since epoch {request.epoch}"
            )
        if request.mode == ProducerAccessMode.Exclusive and others:
            self._probe_all()
            if request.epoch is not None and any(each.name == request.name for each in exclusive):
                # Most likely, this is the producer's own stale connection, so let the client retry.
                raise BrokerError(
                    ServerError.ProducerBusy, f"producer {request.name} is already connected"
                )
            raise _fenced_error(f"{self._ledger.name} already has the producer {others[0].name}")

    def _probe_all(self) -> None:
        for each in self._granted:
            each.probe()

    def _disconnect_all(self, name: str) -> None:
        error = _fenced_error(f"producer {name} has taken exclusive access to {self._ledger.name}")
        self.fail_waiting(error)
        granted, self._granted = self._granted, {}
        for each in granted:
            each.disconnect()

    async def _start_epoch(self, request: AccessRequest) -> None:
        # Store one epoch at a time, because each epoch is its predecessor plus one.
        async with self._epoch_lock:
            if request.epoch is None:
                request.epoch = 0 if self.epoch is None else self.epoch + 1
            if request in self._granted and request.epoch != self.epoch:
                await self._ledger.set_property(EPOCH_PROPERTY, str(request.epoch))
        # The producer may have left or been fenced while the epoch was being stored.
        if request not in self._granted:
            raise _left_error(request)


def _fenced_error(why: str) -> BrokerError:
    return BrokerError(ServerError.ProducerFenced, why)


def _left_error(request: AccessRequest) -> BrokerError:
    return _fenced_error(
        f"producer {request.name} left the topic or was fenced by another producer"
    )
