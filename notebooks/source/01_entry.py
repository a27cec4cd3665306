# %% [markdown]
# # 01 · What exactly is stored, and who checks it?
#
# An **entry** is the unit that BookKeeper writes, replicates, stores and reads. In this lesson, you take an entry apart, byte by byte, and put it together again with your own code.
#
# **At the end you can** pack an entry yourself, explain what each byte of its header is for, compute the length field for a series of adds, and explain who notices a damaged byte and who does not.
#
# **Takes** about 75 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** the tour.
#
# > **The rule: packed only once.** The client packs an entry once. Every bookie that stores the entry (its **write set**) receives these bytes and writes them, unchanged, to its journal and its entry log. The client that writes the entry computes the digest, and the client that reads the entry checks the digest. Bookies do neither.
#
# This lesson is plain Python. It does not start a cluster or need Java.

# %% tags=["parameters"]
ledger_id = 5
payload = "hello"
digest_type = "CRC32C"  # or CRC32, HMAC, DUMMY

# %%
from labkit.course.lessons import (
    DIGEST,
    BKDigestMatchException,
    DigestType,
    Entry,
    OneBookie,
    XRay,
    add_and_flush,
    check,
    compare,
    decode_entry,
    encode_entry,
    hint,
    make_digest,
    packed_bytes,
    parameters,
    predict,
    read_with_changed_byte,
    record,
)

parameters("01", globals())
digest = make_digest(DigestType[digest_type], password=b"pw")

# %% [markdown]
# ## 1 · The picture
#
# This is the first entry of a ledger. Point at a byte, or use the arrow keys, to see what it means.

# %%
entry = Entry(ledger_id, 0, -1, len(payload.encode()), payload.encode())
packed = encode_entry(entry, digest)
XRay(packed_bytes(packed, digest))

# %% [markdown]
# **Do you want to save your predictions?** Normally, labkit forgets your predictions and the hints you asked for when the kernel stops. If you turn on this switch, labkit saves them in a file next to this notebook. The switch applies to all lessons in this folder. You can read the file and hand it in; nothing is sent anywhere. The switch is off by default. Turning it off again deletes the file.

# %%
record()

# %% [markdown]
# | bytes | field | who needs it |
# | --- | --- | --- |
# | 0-7 | ledger id | the bookie, which looks entries up by ledger id and entry id |
# | 8-15 | entry id | the bookie |
# | 16-23 | last add confirmed | readers and recovery: the last entry that had been confirmed when this one was packed, or -1 if none had |
# | 24-31 | length | recovery: the number of payload bytes in the ledger up to and including this entry |
# | from 32 | digest | the reading client |
# | the rest | payload | your application |
#
# All numbers are signed and big-endian. An entry has no other fields: no type, no timestamp, and no checksum from the bookie.
#
# **Predict.** How long, in bytes, is an entry with a payload of 100 bytes? Replace `None` with a number.

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
# You choose a ledger's digest type when you create the ledger. The type is stored in the ledger's metadata, so entries do not repeat it. It determines the size of the digest, which sits between the header and the payload.

# %%
for kind in DigestType:
    made = make_digest(kind, password=b"pw")
    data = encode_entry(entry, made)
    print(f"{kind.name:<6} {made.size:>2} bytes  {data[32 : 32 + made.size].hex()}")

# %% [markdown]
# CRC32 takes up eight bytes, although four would be enough. DUMMY protects nothing. The two CRCs detect accidental changes. Only HMAC uses the password, so only HMAC stops an attacker who changes the entry *and* recomputes its digest:

# %%
for kind in DigestType:
    one, other = (encode_entry(entry, make_digest(kind, pw)) for pw in (b"pw", b"other"))
    print(f"{kind.name:<6} with another password: {'same bytes' if one == other else 'differs'}")

# %% [markdown]
# ### Your turn: pack an entry
#
# `digest.compute(header, payload)` returns the digest as bytes. `struct.pack` turns numbers into bytes. The check uses your function to pack entries for a real store. It crashes the machine before every disk operation, and then looks up every surviving entry by its ids.

# %%
import struct


def my_pack(entry, digest):
    # solution
    numbers = entry.ledger_id, entry.entry_id, entry.last_add_confirmed, entry.length
    header = struct.pack(">qqqq", *numbers)
    return header + digest.compute(header, entry.payload) + entry.payload
    # learner
    # raise NotImplementedError  # pack entry.ledger_id, entry.entry_id, ... into bytes
    # end


# %% tags=["exercise"]
check("entry.pack", my_pack)

# %% [markdown]
# *Stuck? Run `hint("entry.pack")` in a new cell. There are three hints, from a nudge to nearly the full answer. You can find this lesson with all the answers in `notebooks/solutions`.*
#
# What happens if you swap the two ids, as this function does?


# %% tags=["refused"]
def ids_swapped(entry, digest):
    numbers = entry.entry_id, entry.ledger_id, entry.last_add_confirmed, entry.length
    header = struct.pack(">qqqq", *numbers)
    return header + digest.compute(header, entry.payload) + entry.payload


check("entry.pack", ids_swapped, must_pass=False)

# %% [markdown]
# ## 3 · Two fields about earlier entries
#
# A writer pushes entries without waiting for earlier ones to be acknowledged. When it packs entry 3, the last confirmed entry may be entry 1. Entry 3 then records this in its **last add confirmed** field. Its **length** field also depends on earlier entries.

# %%
sizes, confirmed = [5, 7, 0, 20], [-1, -1, 0, 1]
total = 0
for entry_id, (size, lac) in enumerate(zip(sizes, confirmed, strict=True)):
    total += size
    print(f"entry {entry_id}: last add confirmed {lac:>2}, {size:>2} bytes of payload, length ?")

# %% [markdown]
# **Predict.** What is the value of the length field in entry 3?

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
# The writer dies. The client that closes the ledger must write the ledger's length into the metadata. It can get this length only from the last surviving entry, whichever entry that is. Compute each entry's length field from the payload sizes.
#
# The check adds entries with your lengths to a real store, cuts the power after each one, restarts the store and reads the last entry.


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
# Now send an entry to one bookie. Move the slider along the bookie's timeline. The client's bytes appear first in the journal and then in the entry log. The index only records where they are. Hatched bytes would not survive a power failure.

# %%
bookie = OneBookie()
add_and_flush(bookie, ledger_id)

# %% [markdown]
# ## 5 · Break something: one byte on the disk
#
# **Predict.** You flip a bit in the payload on the bookie's disk. Does the bookie return an error when you read the entry? Answer `True` or `False`.

# %%
# solution
predict("the bookie notices a changed payload", False)
# learner
# predict("the bookie notices a changed payload", None)
# end

# %%
answer = read_with_changed_byte(bookie, ledger_id, 40)
compare("the bookie notices a changed payload", isinstance(answer, Exception))

# %% [markdown]
# The bookie returns the damaged bytes as if nothing had happened. The client notices:

# %%
try:
    decode_entry(answer, DIGEST, ledger_id, 0)
except BKDigestMatchException as error:
    print(error)

# %% [markdown]
# The bookie checks only the two ids, to make sure that it has found the right entry. Here you damage the entry id instead:

# %%
print(read_with_changed_byte(bookie, ledger_id, 15))

# %% [markdown]
# ### Your turn: the reader's check
#
# Which bytes does the digest cover? Write the check that a reader performs. The exercise then damages every byte of an entry in a real entry log, one byte at a time, with each digest type. It also truncates the entry to every possible length.


# %%
def my_is_intact(data, digest):
    # solution
    end = 32 + digest.size
    header, found, payload = data[:32], data[32:end], data[end:]
    return len(data) >= end and found == digest.compute(header, payload)
    # learner
    # raise NotImplementedError  # return True or False
    # end


# %% tags=["exercise"]
check("entry.intact", my_is_intact)

# %% [markdown]
# A reader that checks nothing accepts everything. The first damaged byte that this function misses is in the last add confirmed field. A wrong value in that field makes a reader read too far:

# %% tags=["refused"]
check("entry.intact", lambda data, digest: True, must_pass=False)

# %% [markdown]
# ## 6 · In the real system
#
# This is Apache BookKeeper's own format. labkit's tests compare it with files that a BookKeeper 4.17 bookie has written.
#
# | here | there |
# | --- | --- |
# | `labkit/system/model/entry.py` | `proto/checksum/DigestManager.java`, one subclass per digest type |
# | `DigestType` | an argument of `createLedger`; in Pulsar, `managedLedgerDigestType` in `broker.conf` (CRC32C) |
# | length | `LedgerHandle.getLength`; in the metadata after the ledger has been closed |
# | last add confirmed | [lesson 06](06-lac.ipynb); an idle writer can also announce it without writing an entry (*explicit LAC*) |
#
# **A known trap.** `bookkeeper shell readjournal -m` assumes that the digest starts at byte 24, so the data it prints starts with the digest. The payload comes after it.
#
# **Why does the bookie not check the digest?** It would need the ledger's digest type and, for HMAC, the password, but it has only a key derived from the password. Besides, a check by the bookie would not protect the bytes on their way to the client.
#
# ## 7 · Questions
#
# <details><summary>An entry is sent to three bookies, and each one writes it to its journal and its entry log. How many digests are computed?</summary>One: the writer computes it. Each reader computes its own digest and compares the two.</details>
# <details><summary>Can two entries of one ledger have the same last add confirmed?</summary>Yes, whenever entries are pushed faster than acknowledgements arrive. In section 3, entries 0 and 1 have the same value.</details>
# <details><summary>The length field is 100 in entry 4 and also in entry 5. Is something wrong?</summary>No. Entry 5 has an empty payload.</details>
# <details><summary>You ask a bookie for entry 6, and it returns a perfectly valid entry 7. Who notices?</summary>The client. The digest covers the ids, so the ids in the response are genuine, and <code>decode_entry</code> compares them with the requested ids.</details>
#
# **Next:** [02 the journal](02-journal.ipynb). Now the entry is packed. What makes it durable?
