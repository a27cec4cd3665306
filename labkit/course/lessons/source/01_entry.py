# %% [markdown]
# # 01 · What exactly is stored, and who checks it?
#
# An **entry** is what is written, replicated, stored and read as one. This lesson takes one apart, byte by byte, and puts it together again with your code.
#
# **At the end you can** pack an entry yourself, say what each byte of its header is for, compute the length field of a run of adds, and say who notices a damaged byte and who does not.
#
# **Takes** about 75 minutes. **Needs** Python alone, in a browser tab as well. **After** the tour.
#
# > **The rule: one packing.** The client packs an entry once. The same bytes go over the wire, into the journal and into the entry log of every bookie that stores it (its **write set**). The writing client makes the digest, the reading client checks it; a bookie never does.
#
# Plain Python: nothing is started here, no cluster and no Java.

# %% tags=["parameters"]
ledger_id = 5
payload = "hello"
digest_type = "CRC32C"  # or CRC32, HMAC, DUMMY

# %%
from labkit.course.lessons import check, compare, hint, parameters, predict, record
from labkit.system.model.byte_region import Piece
from labkit.system.model.entry import DigestType, Entry, decode_entry, encode_entry, make_digest
from labkit.system.storage.xray import entry_spans
from labkit.views.widgets import XRay

parameters("01", globals())
digest = make_digest(DigestType[digest_type], password=b"pw")

# %% [markdown]
# **May your predictions be saved?** They and the hints you take are gone when the kernel ends. While this switch is on, they are saved in a file beside this notebook, for all lessons in this folder. You can read it and hand it in; nothing is sent anywhere. It is off at first, and turning it off, or deleting the file, deletes what was saved.

# %%
record()

# %% [markdown]
# ## 1 · The picture
#
# The first entry of a ledger: every byte under the name of its field. Point at a byte, or use the arrow keys, to see what it says.

# %%
entry = Entry(ledger_id, 0, -1, len(payload.encode()), payload.encode())
packed = encode_entry(entry, digest)
XRay(Piece("entry 0", "", 0, packed, entry_spans(packed, 0, digest.size), len(packed)))

# %% [markdown]
# | bytes | field | who needs it |
# | --- | --- | --- |
# | 0-7 | ledger id | the bookie: it files the entry under it |
# | 8-15 | entry id | the bookie, the same |
# | 16-23 | last add confirmed | readers and recovery: everything up to here was acknowledged when this entry was packed; -1: nothing was |
# | 24-31 | length | recovery: payload bytes in the ledger up to and including this entry |
# | 32- | digest | the reading client |
# | then | payload | you |
#
# All numbers are signed and begin with their most significant byte. There is nothing else: no type, no time, no checksum made by the bookie.
#
# **Predict.** How many bytes long is an entry with a payload of 100 bytes? Replace `None` with a number.

# %%
# solution
predict("an entry with 100 bytes of payload", 32 + digest.size + 100)
# learner
# predict("an entry with 100 bytes of payload", None)
# end

# %%
hundred = encode_entry(Entry(ledger_id, 0, -1, 100, bytes(100)), digest)
compare("an entry with 100 bytes of payload", len(hundred))

# %% [markdown]
# ## 2 · Four digests
#
# A ledger's digest type is chosen when the ledger is created and is stored in its metadata, so the entry need not repeat it. It decides how many bytes lie between header and payload.

# %%
for kind in DigestType:
    made = make_digest(kind, password=b"pw")
    data = encode_entry(entry, made)
    print(f"{kind.name:<6} {made.size:>2} bytes  {data[32 : 32 + made.size].hex()}")

# %% [markdown]
# CRC32 takes eight bytes although four would do. DUMMY protects nothing. The two CRCs detect accidents; only HMAC uses the password, so only HMAC detects a change of both the entry *and* its digest:

# %%
for kind in DigestType:
    one, other = (encode_entry(entry, make_digest(kind, pw)) for pw in (b"pw", b"other"))
    print(f"{kind.name:<6} with another password: {'same bytes' if one == other else 'differs'}")

# %% [markdown]
# ### Your turn: pack an entry
#
# `digest.compute(header, payload)` gives the digest's bytes. `struct.pack` turns numbers into bytes. Your function then packs entries for a real store: they are stored, the machine is stopped at every operation of its disk, and each entry that is left must be found under its ids.

# %%
import struct


def my_pack(entry, digest):
    # solution
    numbers = entry.ledger_id, entry.entry_id, entry.last_add_confirmed, entry.length
    header = struct.pack(">qqqq", *numbers)
    return header + digest.compute(header, entry.payload) + entry.payload
    # learner
    # raise NotImplementedError  # entry.ledger_id, entry.entry_id, ... -> bytes
    # end


# %% tags=["exercise"]
check("entry.pack", my_pack)

# %% [markdown]
# *Stuck? Run `hint("entry.pack")` in a new cell: three hints, from a nudge to nearly the answer. `notebooks/solutions` has this lesson with all answers.*
#
# What if you mixed up the two ids? This one does:


# %% tags=["refused"]
def ids_swapped(entry, digest):
    numbers = entry.entry_id, entry.ledger_id, entry.last_add_confirmed, entry.length
    header = struct.pack(">qqqq", *numbers)
    return header + digest.compute(header, entry.payload) + entry.payload


check("entry.pack", ids_swapped, must_pass=False)

# %% [markdown]
# ## 3 · Two fields that look back
#
# A writer pushes adds without waiting for earlier ones. So when entry 3 is packed, entry 1 may be the last one acknowledged: that is what entry 3's **last add confirmed** says. Its **length** looks back too.

# %%
sizes, confirmed = [5, 7, 0, 20], [-1, -1, 0, 1]
total = 0
for entry_id, (size, lac) in enumerate(zip(sizes, confirmed, strict=True)):
    total += size
    print(f"entry {entry_id}: last add confirmed {lac:>2}, {size:>2} bytes of payload, length ?")

# %% [markdown]
# **Predict.** What length does entry 3 carry?

# %%
# solution
predict("length of entry 3", total)
# learner
# predict("length of entry 3", None)
# end

# %%
compare("length of entry 3", total)

# %% [markdown]
# ### Your turn: the length field
#
# The writer dies. The client that closes the ledger reads the last entry that is left, whichever that is, and must write the ledger's length into the metadata. Compute each entry's length field from the payload sizes.
#
# The check adds your entries to a real store, cuts the power after each one, restarts the store and reads the last entry.


# %%
def my_lengths(payload_sizes):
    # solution
    lengths, total = [], 0
    for size in payload_sizes:
        total += size
        lengths.append(total)
    return lengths
    # learner
    # raise NotImplementedError  # [5, 7, 0, 20] -> four numbers
    # end


# %% tags=["exercise"]
check("entry.length", my_lengths)

# %% [markdown]
# ## 4 · The same bytes everywhere
#
# Now one bookie gets an entry. Step through the moments: the client's bytes appear in the journal, then in the entry log; the index only says where they are. Hatched bytes would not survive a power cut. The slider is the bookie's clock: each moment lies where it was in the bookie's life.

# %%
from labkit.course.runs.one_bookie import OneBookie

bookie = OneBookie()
moments = {}


def look_before_a_sync(operation):
    if operation.kind == "sync":
        moments.setdefault("written, not synced", bookie.places(ledger_id, 0))


# %%
bookie.add((ledger_id, 0))
moments["after the add"] = bookie.places(ledger_id, 0)
bookie.machine.journals[0].fuse.watch = look_before_a_sync
bookie.commit()
bookie.machine.journals[0].fuse.watch = None
moments["after the journal's sync"] = bookie.places(ledger_id, 0)
bookie.flush()
moments["after the flush"] = bookie.places(ledger_id, 0)
seen = {event.kind: event.seq for event in bookie.trace.events}
ends = ["memtable.put", "journal.appended", "journal.synced", "mark.persisted"]
XRay(moments, run=bookie.trace, upto=[seen[kind] + 1 for kind in ends])

# %% [markdown]
# ## 5 · Break something: one byte on the disk
#
# **Predict.** A byte of the payload changes on the bookie's disk. Does the bookie's read fail? Answer `True` or `False`.

# %%
# solution
predict("the bookie notices a changed payload", False)
# learner
# predict("the bookie notices a changed payload", None)
# end

# %%
from labkit.system.model.errors import StorageDamagedException

log = bookie.machine.ledgers[0].open("current/0.log")
start = 1024 + 4  # the log's header, the length in front of the entry


# %%
def read_with_changed_byte(at):
    byte = log.read(start + at, 1)
    log.write(start + at, bytes([byte[0] ^ 1]))
    bookie.restart()  # its read-ahead buffer is lost with its memory
    try:
        return bookie.read(ledger_id, 0)
    except StorageDamagedException as error:
        return error
    finally:
        log.write(start + at, byte)


# %%
answer = read_with_changed_byte(40)
compare("the bookie notices a changed payload", isinstance(answer, Exception))

# %% [markdown]
# The bookie returns the damaged bytes as if nothing had happened. The client finds out:

# %%
from labkit.system.model.errors import BKDigestMatchException
from labkit.worlds.sim.settings.bookie_script import DIGEST

try:
    decode_entry(answer, DIGEST, ledger_id, 0)
except BKDigestMatchException as error:
    print(error)

# %% [markdown]
# The bookie compares only two of an entry's fields, the ids: is this the entry that the index points to?

# %%
print(read_with_changed_byte(15))

# %% [markdown]
# ### Your turn: the reader's check
#
# Which bytes does the digest cover? Write the check that a reader makes. Then every byte of an entry is changed in a real entry log, one at a time, with each digest type, and the entry is cut at every length.


# %%
def my_is_intact(data, digest):
    # solution
    end = 32 + digest.size
    header, found, payload = data[:32], data[32:end], data[end:]
    return len(found) == digest.size and found == digest.compute(header, payload)
    # learner
    # raise NotImplementedError  # -> True or False
    # end


# %% tags=["exercise"]
check("entry.intact", my_is_intact)

# %% [markdown]
# A reader that checks nothing accepts everything. The first wrong byte that this one misses is in the header, where a wrong last add confirmed makes a reader read too far:

# %% tags=["refused"]
check("entry.intact", lambda data, digest: True, must_pass=False)

# %% [markdown]
# ## 6 · In the real system
#
# These are Apache BookKeeper's bytes; the tests compare them with files that a bookie of version 4.17 wrote.
#
# | here | there |
# | --- | --- |
# | `labkit/system/model/entry.py` | `proto/checksum/DigestManager.java`, one subclass for each digest type |
# | `DigestType` | argument of `createLedger`; in Pulsar's `broker.conf` `managedLedgerDigestType` (CRC32C) |
# | length | `LedgerHandle.getLength`, and the metadata's length once the ledger is closed |
# | last add confirmed | [lesson 06](06-lac.ipynb); an idle writer can also announce it without writing an entry: the *explicit LAC* |
#
# **A known trap.** `bookkeeper shell readjournal -m` prints an entry from byte 24 on as if its digest began there: the data it shows begin with the digest. Count 32 bytes yourself.
#
# **Why does the bookie not check the digest?** It would need the ledger's digest type and, for HMAC, its password; it knows only a key derived from the password. And a client must be able to trust the bytes that arrive, not the bytes that were stored.
#
# ## 7 · Questions
#
# <details><summary>An entry on the wire, in the journal and in the entry log: how many digests are computed for Qw = 3?</summary>One, by the writer. Each reader computes one more to compare.</details>
# <details><summary>Can two entries of one ledger have the same last add confirmed?</summary>Yes: whenever adds are pushed faster than acknowledgements come back. In section 3 entries 0 and 1 do.</details>
# <details><summary>Entry 4 is read and says length 100, entry 5 says 100 too. Is something wrong?</summary>No: entry 5 has an empty payload.</details>
# <details><summary>A bookie answers with entry 7 when it is asked for entry 6, digest and all. Who notices?</summary>The client: the ids are under the digest, so they certainly belong to entry 7, and <code>decode_entry</code> compares them with the ids that were asked for.</details>
#
# **Next:** [02 the journal](02-journal.ipynb): the entry is packed; what makes it durable?
