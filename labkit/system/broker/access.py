"""Which producers may use a topic: several that share it, or one alone.

    Shared                  with others; refused while a producer is alone there, or waits to be
    Exclusive               alone, or refused
    WaitForExclusive        alone, once all connected and all earlier waiting ones have left
    ExclusiveWithFencing    alone, and at once: all the others are fenced

A producer that is alone gets the topic's next epoch, a number that is kept with the chain of
ledgers.  A producer whose connection broke comes back with its epoch.  If the topic's epoch is
higher by then, another producer was alone in the meantime, and the returning one is fenced: it may
no longer send.

In Pulsar: `broker/service/AbstractTopic.java` (`incrementTopicEpochIfNeeded`).
"""

import asyncio
from collections.abc import Callable

from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import ProducerAccessMode, ServerError
from labkit.system.topic.managed_ledger import ManagedLedger

EPOCH_PROPERTY = "pulsar.topic.epoch"


class ProducerPlace:
    """A producer's access: requested, waiting, or granted; `epoch` is None until it is alone."""

    def __init__(
        self,
        name: str,
        mode: ProducerAccessMode,
        epoch: int | None,
        probe: Callable[[], None],
    ) -> None:
        """A returning producer has an `epoch`.  `probe` checks that its client is alive."""
        self.name = name
        self.mode = mode
        self.epoch = epoch
        self.probe = probe
        self.disconnect: Callable[[], None] = lambda: None
        """Called when the producer is fenced."""

    @property
    def is_alone(self) -> bool:
        """Whether the producer has the topic to itself."""
        return self.mode != ProducerAccessMode.Shared


class ProducerAccess:
    """The producers of one topic: several that share it, or one alone, and the waiting ones."""

    def __init__(self, ledger: ManagedLedger) -> None:
        self._ledger = ledger
        self._present: dict[ProducerPlace, None] = {}
        self._waiting: dict[ProducerPlace, asyncio.Future[None]] = {}
        self._next_epoch = asyncio.Lock()

    @property
    def epoch(self) -> int | None:
        """The epoch of the last producer that was alone; None: no producer ever was."""
        text = self._ledger.properties.get(EPOCH_PROPERTY)
        return None if text is None else int(text)

    async def enter(self, place: ProducerPlace, on_queued: Callable[[], None]) -> None:
        """Let a producer in until `leave`, which must follow an error too; `on_queued`: it waits.

        Raises `BrokerError` when it is refused or fenced, and what
        `ManagedLedger.set_property` raises.
        """
        self._check(place)
        if place.mode == ProducerAccessMode.ExclusiveWithFencing:
            self._disconnect_all(place.name)
        if place.is_alone and self._present:
            self._probe_all()
            turn = self._waiting[place] = asyncio.get_running_loop().create_future()
            on_queued()
            await turn  # `leave` of the producer before it has made it present.
        else:
            self._present[place] = None
        if place.is_alone:
            await self._begin_epoch(place)

    def leave(self, place: ProducerPlace) -> None:
        """Remove a producer, present or waiting; the next one enters when the last has left."""
        if (turn := self._waiting.pop(place, None)) is not None:
            turn.set_exception(_gone(place))
        elif place in self._present:
            del self._present[place]
            if self._waiting and not self._present:
                following = next(iter(self._waiting))
                self._present[following] = None
                self._waiting.pop(following).set_result(None)

    def close(self) -> None:
        """Fail the waiting producers: they must look the topic up again."""
        self.refuse_waiting(
            BrokerError(
                ServerError.ServiceNotReady,
                f"{self._ledger.name} is being closed: look it up again",
            )
        )

    def refuse_waiting(self, error: BrokerError) -> None:
        """Fail the waiting producers."""
        waiting, self._waiting = self._waiting, {}
        for turn in waiting.values():
            turn.set_exception(error)

    def _check(self, place: ProducerPlace) -> None:
        """Raises `BrokerError`."""
        others = [*self._present, *self._waiting]
        alone = [each for each in others if each.is_alone]
        if not place.is_alone and alone:
            self._probe_all()
            raise BrokerError(
                ServerError.ProducerBusy,
                f"{self._ledger.name} belongs to the producer {alone[0].name} alone",
            )
        if place.is_alone and place.epoch is not None and place.epoch < (self.epoch or 0):
            raise _fenced(
                f"{self._ledger.name} is in epoch {self.epoch}: another producer was alone there"
                f" since epoch {place.epoch}"
            )
        if place.mode == ProducerAccessMode.Exclusive and others:
            self._probe_all()
            if place.epoch is not None and any(each.name == place.name for each in alone):
                # Most likely this is its own old connection, still open: the client tries again.
                raise BrokerError(ServerError.ProducerBusy, f"{place.name} is connected already")
            raise _fenced(f"{self._ledger.name} has the producer {others[0].name}")

    def _probe_all(self) -> None:
        for each in self._present:
            each.probe()

    def _disconnect_all(self, name: str) -> None:
        error = _fenced(f"the producer {name} took {self._ledger.name} for itself")
        self.refuse_waiting(error)
        present, self._present = self._present, {}
        for each in present:
            each.disconnect()

    async def _begin_epoch(self, place: ProducerPlace) -> None:
        """Store the epoch before its producer stores anything."""
        # One at a time: each epoch is one more than the last stored one.
        async with self._next_epoch:
            if place.epoch is None:
                place.epoch = 0 if self.epoch is None else self.epoch + 1
            if place in self._present and place.epoch != self.epoch:
                await self._ledger.set_property(EPOCH_PROPERTY, str(place.epoch))
        # The producer may have left, or been fenced, while the epoch was stored.
        if place not in self._present:
            raise _gone(place)


def _fenced(why: str) -> BrokerError:
    return BrokerError(ServerError.ProducerFenced, why)


def _gone(place: ProducerPlace) -> BrokerError:
    return _fenced(f"the producer {place.name} gave its place up, or lost it to another")
