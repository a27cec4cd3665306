"""Lists the mutants that do not violate any promise of the system, with a reason for each
mutant.
"""

EQUIVALENT: dict[str, str] = {
    "labkit/system/metadata/cookie.py _expand: constant: True -> False": (
        "A check of what cannot be: the disks end with one for each ledger directory."
    ),
    "labkit/system/metadata/store.py MetadataStore.create: constant: False -> True #1": (
        "The default of a port's method: each store that has the port states it again."
    ),
    "labkit/system/metadata/store.py (module): constant: 1000000 -> 1000001": (
        "The limit lies far below the request that ZooKeeper refuses; so does one byte more."
    ),
    **dict.fromkeys(
        (
            "labkit/system/bookie/turns.py (module): constant: 1024 -> 1025",
            "labkit/system/bookie/turns.py (module): constant: 1024 -> 1025 #1",
        ),
        "How long a client's turn is: a thousandth more treats nobody differently.",
    ),
    "labkit/system/bookie/channel.py (module): constant: 1024 -> 1025": (
        "A bound for memory: a thousandth more for a client treats nobody differently."
    ),
    "labkit/system/bookie/node.py Bookie._record_adds: constant: True -> False": (
        "A check of what cannot be: a batch of adds has as many ledger ids as entry ids."
    ),
    "labkit/system/bookie/protocol_v3.py (module): constant: 1024 -> 1025": (
        "What a list costs of a client's turn: a thousandth more treats nobody differently."
    ),
    **dict.fromkeys(
        (
            "labkit/system/storage/log_reader.py (module): constant: 1024 -> 1025",
            "labkit/system/storage/log_reader.py (module): constant: 1024 -> 1025 #1",
            "labkit/views/xray/file_spans.py (module): constant: 1024 -> 1025",
            "labkit/views/xray/file_spans.py (module): constant: 1024 -> 1025 #1",
        ),
        "How much is read at once: a thousandth more makes no difference.",
    ),
    "labkit/system/storage/entry_log.py (module): constant: 64 -> 65 #1": (
        "A bound for open files: one more does not matter."
    ),
    "labkit/system/storage/last_log_id.py read_last_id: constant: 64 -> 65": (
        "An id has at most eight hexadecimal digits."
    ),
    "labkit/system/storage/last_log_id.py read_last_id: constant: 1 -> 2": (
        "Any negative number means none: the caller takes the maximum with -1."
    ),
    "labkit/system/storage/index/ledger_index.py LedgerIndex.__init__: constant: 0 -> 1 #2": (
        "The number of flushes is only compared with an earlier one: it matters that it moves."
    ),
    "labkit/system/storage/index/ledger_index.py LedgerIndex.__init__: constant: 1 -> 2 #1": (
        "Any negative entry means none: its maximum with the last stored one, at least -1, is asked"
        " for."
    ),
    **dict.fromkeys(
        (
            "labkit/system/storage/index/ledger_index.py LedgerIndex.__init__: constant: 0 -> 1 #3",
            "labkit/system/storage/index/ledger_index.py LedgerIndex.__init__: constant: 1 -> 2",
        ),
        "What was read ahead belongs to no flush yet: nobody looks at its place and bytes.",
    ),
    "labkit/system/storage/index/ledger_index.py LedgerIndex.__init__: constant: 0 -> 1": (
        "A page more than there is: it has no location."
    ),
    "labkit/system/storage/index/ledger_index.py LedgerIndex.after_sync: constant: 1 -> 2 #1": (
        "Any negative page means none: the maximum with the pages that there are is taken."
    ),
    "labkit/system/storage/entry_log.py (module): constant: 1 -> 2 #2": (
        "A key for the log that all ledgers share: any will do."
    ),
    "labkit/system/storage/entry_log.py read_ledgers_map: constant: 0 -> 1 #1": (
        "Of a file that ends in its header: an offset inside the header is not a map's either."
    ),
    "labkit/system/storage/garbage.py GarbageCollector.compact: constant: 0 -> 1 #1": (
        "Of a ledger that is gone: any location that is not the entry's will do."
    ),
    "labkit/system/storage/last_log_id.py read_last_id: constant: 1 -> 2 #1": (
        "Any negative number means none: the next line makes -1 of it."
    ),
    "labkit/system/storage/log_reader.py (module): constant: 64 -> 65 #1": (
        "How many zeros are read at once: a little more makes no difference."
    ),
    "labkit/system/storage/log_reader.py EntryLogReader.entry: boundary:"
    " size > read_size -> size >= read_size": (
        "An entry of just that size that ends behind the file is not there, read again or not."
    ),
    "labkit/system/storage/log_reader.py zeros_to_skip: constant: 3 -> 4": (
        "A hole of four bytes is then counted byte by byte: those are zeros, too."
    ),
    "labkit/system/storage/entry_log.py OpenLog._write: constant: 1 -> 2": (
        "How many entries are joined at once: of very large ones two instead of one."
    ),
    **dict.fromkeys(
        (
            "labkit/system/storage/store.py LedgerStore.flush_entries: constant: True -> False",
            "labkit/system/storage/flush_events.py written_entries: constant: True -> False",
            "labkit/system/storage/flush_events.py written_entries: constant: True -> False #1",
        ),
        "A check of what cannot be: each entry of a run has an id and got a location.",
    ),
    "labkit/system/storage/entry_log.py read_ledgers_map: boundary:"
    " LOG_HEADER.size <= at <= end - LEDGERS_MAP_HEADER.size"
    " -> LOG_HEADER.size <= at < end - LEDGERS_MAP_HEADER.size": (
        "Behind the header of a batch is at least one ledger, or the map is not whole."
    ),
    **dict.fromkeys(
        (
            "labkit/views/xray/file_spans.py journal_spans: constant: 0 -> 1",
            "labkit/system/storage/journal_scan.py JournalScan.__init__: constant: 0 -> 1",
        ),
        "The place in a journal does not change the journal's name.",
    ),
    "labkit/system/storage/index/ledger_index.py LedgerIndex._pages: boundary:"
    " stored < self._page_count -> stored <= self._page_count": (
        "A page behind the last one: it has no location."
    ),
    "labkit/system/storage/disk.py ids_in: constant: 1 -> 2": (
        "Any negative number means none: such a name is refused."
    ),
    "labkit/system/storage/entry_log.py OpenLog.append: constant: True -> False": (
        "A check of what cannot be: the sizes are those of the entries."
    ),
    "labkit/system/storage/store.py LedgerStore.__init__: constant: True -> False": (
        "A check of what cannot be: the store has a mark for each journal."
    ),
    "labkit/system/storage/entry_batch.py read_entries: boundary: entry_id < end -> entry_id <= end": (
        "Of the entries from the end to the end there are none."
    ),
    **dict.fromkeys(
        (
            "labkit/system/storage/entry_batch.py read_entries: constant: 0 -> 1",
            "labkit/system/storage/entry_batch.py read_entries: boundary: max_bytes > 0 -> max_bytes >= 0",
        ),
        "No entry fits into one byte or none.",
    ),
    **dict.fromkeys(
        (
            "labkit/system/storage/store.py LedgerStore.last_entry_id: constant: 1 -> 2",
            "labkit/system/storage/store.py LedgerStore.last_entry_id: constant: 1 -> 2 #1",
        ),
        "Any negative entry means none: its maximum with the memtable's, at least -1, is taken.",
    ),
    **dict.fromkeys(
        (
            "labkit/system/storage/store.py LedgerStore.persist_marks: constant: True -> False",
            "labkit/system/storage/store.py LedgerStore.persist_marks: constant: True -> False #1",
        ),
        "A check of what cannot be: the store has a mark and a name for each journal.",
    ),
    "labkit/system/storage/garbage.py logs_to_compact: arithmetic: _BUCKETS - 1 -> _BUCKETS + 1": (
        "A log that is worth compacting is not full, so it is in no bucket above the ninth."
    ),
    "labkit/views/xray/file_spans.py first_nonzero: arithmetic: end - at -> end + at": (
        "A read ends at the end of the file."
    ),
    "labkit/system/storage/store.py LedgerStore.flush: constant: True -> False": (
        "A check of what cannot be: the store has a mark for each journal."
    ),
    **dict.fromkeys(
        (
            "labkit/system/storage/disk.py sync_file: statement: file.close() -> (dropped)",
            "labkit/system/storage/last_log_id.py write_last_id: statement: file.close() -> (dropped)",
            "labkit/system/storage/journal.py Journal.write_unsynced: statement: self._file.close() -> (dropped)",
            "labkit/system/storage/entry_log.py EntryLogger._abandon_logs: statement:"
            " log.file.close() -> (dropped)",
            "labkit/system/metadata/cookie.py _read: statement: file.close() -> (dropped)",
            "labkit/system/metadata/cookie.py _prepare: statement: file.close() -> (dropped)",
        ),
        "A file closes with the last reference to it (`labkit/worlds/live/disk.py`), so when the function"
        " ends, or when another file takes its place.",
    ),
    "labkit/system/client/batch_read.py BatchReads.read: loop: break -> continue": (
        "Once no bookie can be asked, the loop asks none of the remaining ones either."
    ),
    "labkit/system/client/protocol/protocol_v2.py (module): constant: 10000 -> 10001": (
        "A bound for memory: what one more late answer takes does not matter."
    ),
    **dict.fromkeys(
        (
            "labkit/system/client/protocol/protocol_v2.py PerChannelBookieClientV2.__init__: statement:"
            " self._deadline = 0.0 -> (dropped)",
            "labkit/system/client/protocol/protocol_v2.py PerChannelBookieClientV2.__init__: constant: 0.0 -> 1.0",
        ),
        "The first request of a turn sets it before any request takes it.",
    ),
    "labkit/system/client/protocol/protocol_v3.py PerChannelBookieClientV3._ask: constant: 1 -> 2": (
        "A txnId only has to differ from those before it."
    ),
    "labkit/system/client/deferred_sync.py _NoEnsembleChange.start: constant: False -> True": (
        "The default of a parameter that this method has for its base class alone."
    ),
    "labkit/system/client/quorum.py is_covered: arithmetic: first + i -> first - i": (
        "Of each write set it takes the last place for the first one: all of them are looked at."
    ),
    "labkit/system/client/ensemble_change.py EnsembleChange.start: boundary:"
    " self._loop.time() >= self._retry_at -> self._loop.time() > self._retry_at": (
        "At the very moment or at the add after it: it looks once a second."
    ),
    "labkit/system/client/deferred_sync.py DeferredSyncWriter.__init__: constant: 0 -> 1": (
        "It counts only once an entry is acknowledged, which sets it."
    ),
    "labkit/system/client/writer.py (module): constant: 128 -> 129": (
        "What is kept free of a frame is more than headers need; so is one byte more."
    ),
    "labkit/system/autorecovery/election.py win_election: statement:"
    " await store.create(election, b'') -> (dropped)": (
        "The store makes the missing parents of the vote."
    ),
    "labkit/system/autorecovery/underreplication.py (module): constant: 1 -> 2": (
        "The time of a check that was never made is only compared with itself."
    ),
    **dict.fromkeys(
        (
            "labkit/system/topic/cursors/formats.py encode_cursor_node: constant: True -> False",
            "labkit/system/topic/chain/formats.py _chain_node: constant: True -> False",
        ),
        "protobuf orders nothing but maps, and there is none in these messages.",
    ),
    "labkit/system/topic/consumer.py _NextMessage: constant: 1 -> 2": (
        "Any negative id is in front of all ledgers."
    ),
    "labkit/system/topic/cursors/cursor_store.py CursorStore.__init__: constant: 0 -> 1 #1": (
        "Every ledger sets when it was opened, and only then the time is looked at."
    ),
    "labkit/system/topic/cursors/acknowledged.py Acknowledged.add_up_to: boundary:"
    " position > self.mark_delete -> position >= self.mark_delete": (
        "Nothing changes by an acknowledgement up to where everything is acknowledged."
    ),
    "labkit/system/topic/cursors/cursor.py ManagedCursor.stop: statement: self._due.cancel() -> (dropped)": (
        "The timer that is left wants a write, which a cursor that was stopped refuses."
    ),
    "labkit/system/topic/cursors/cursor.py ManagedCursor.stop: statement: self._due = None -> (dropped)": (
        "A cursor that was stopped begins no write, whatever is due."
    ),
    **dict.fromkeys(
        (
            "labkit/system/topic/producing/deduplication.py Deduplication.check_send: constant: 1 -> 2",
            "labkit/system/topic/producing/deduplication.py Deduplication.check_send: constant: 1 -> 2 #1",
            "labkit/system/topic/producing/deduplication.py Deduplication._forget_idle: constant: 1 -> 2",
        ),
        "No sequence id is below 0, so any negative mark is below all.",
    ),
    **dict.fromkeys(
        (
            "labkit/system/broker/ownership.py TopicOwnership.__init__: constant: 0 -> 1",
            "labkit/system/broker/ownership.py TopicOwnership._session_lost: constant: 1 -> 2",
        ),
        "The number of losses is only compared with an earlier one: it matters that it moves.",
    ),
    "labkit/system/topic/cursors/acknowledged.py Acknowledged._drop_up_to: statement:"
    " self._lowers[0] = max(self._lowers[0], position) -> (dropped)": (
        "A range that the position lies inside is swallowed at once, wherever it begins."
    ),
    "labkit/system/topic/consumer.py PartitionConsumer._receive_from: boundary:"
    " len(received) < max_messages -> len(received) <= max_messages": (
        "Takes no message of the entries that follow, and moves no position."
    ),
    "labkit/system/topic/producing/publishing.py TopicPublisher._append: loop: break -> continue": (
        "The failure before it empties the queue for good, which ends the loop, too."
    ),
    "labkit/system/topic/maintenance.py MaintenanceTask.stop: statement: self._next.cancel() -> (dropped)": (
        "The timer that is left wants work of what no longer runs, which begins none."
    ),
}
