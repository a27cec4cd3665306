from labkit.system.trace.events import Event
from labkit.system.trace.handlers import handlers_of, on


class Base:
    @on("node.started")
    def second(self, event: Event) -> None: ...

    @on("node.killed", "node.paused")
    def first(self, event: Event) -> None: ...


class Derived(Base):
    @on("node.started")
    def another(self, event: Event) -> None: ...

    @on("node.killed")
    def first(self, event: Event) -> None: ...


def test_handlers_are_in_the_order_of_their_definition_those_of_the_base_class_first() -> None:
    assert handlers_of(Derived) == (
        ("node.started", "second"),
        ("node.killed", "first"),
        ("node.started", "another"),
    )
