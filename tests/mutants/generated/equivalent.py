"""Mutants that change nothing that the system promises, each with its reason."""

EQUIVALENT: dict[str, str] = {
    "labkit/metadata/bookie_watch.py _Folder.__init__: constant: False -> True": (
        "The first `now` reads the folder before it looks whether it exists."
    ),
    "labkit/metadata/store.py MetadataStore.create: constant: False -> True #1": (
        "The default of a port's method: each store that has the port states it again."
    ),
    "labkit/metadata/store.py (module): constant: 1000000 -> 1000001": (
        "The limit lies far below the request that ZooKeeper refuses; so does one byte more."
    ),
    **dict.fromkeys(
        (
            "labkit/bookie/turns.py (module): constant: 1024 -> 1025",
            "labkit/bookie/turns.py (module): constant: 1024 -> 1025 #1",
        ),
        "How long a client's turn is: a thousandth more treats nobody differently.",
    ),
    "labkit/bookie/channel.py (module): constant: 1024 -> 1025": (
        "A bound for memory: a thousandth more for a client treats nobody differently."
    ),
    "labkit/bookie/protocol_v3.py (module): constant: 1024 -> 1025": (
        "What a list costs of a client's turn: a thousandth more treats nobody differently."
    ),
    "labkit/client/batch_read.py BatchReads.read: loop: break -> continue": (
        "Once no bookie can be asked, the loop asks none of the remaining ones either."
    ),
    "labkit/client/protocol_v2.py (module): constant: 10000 -> 10001": (
        "A bound for memory: what one more late answer takes does not matter."
    ),
    "labkit/client/writer.py (module): constant: 128 -> 129": (
        "What is kept free of a frame is more than headers need; so is one byte more."
    ),
    "labkit/autorecovery/steadiness.py Steadiness.fell_silent: constant: 1 -> 2": (
        "The number of silences is only compared with an earlier one: it matters that it moves."
    ),
    "labkit/topic/acknowledged.py Acknowledged._drop_up_to: statement:"
    " self._lowers[0] = max(self._lowers[0], position) -> (dropped)": (
        "A range that the position lies inside is swallowed at once, wherever it begins."
    ),
    "labkit/topic/consumer.py PartitionConsumer._receive_from: boundary:"
    " len(received) < max_messages -> len(received) <= max_messages": (
        "Takes no message of the entries that follow, and moves no position."
    ),
    "labkit/topic/deduplication.py (module): constant: 1024 -> 1025 #1": (
        "How much is read at once: a thousandth more makes no difference."
    ),
}
