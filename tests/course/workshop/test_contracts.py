"""Tests that each line of a contract can be broken alone, and that the rejection then quotes only
that line.
"""

# ruff: noqa: E501 - a change of the solution is easier to read in one line

from pathlib import Path

import pytest

from labkit.course.workshop.tracks import track
from tests.course.workshop.wrong import refused

Changes = tuple[tuple[str, str], ...]

_FLUSH_NEW = 'self.disk.create(self.path + ".new") if is_new'
_RENAME = '            self.disk.rename(self.path + ".new", self.path)'
_SYNC_LOG = "        bookie.sync_entry_log()\n"
_FLUSH = "        bookie.flush_indexes()\n"
_MOVE = "        bookie.move_mark(*self.mark)\n"
_REMOVE = "        bookie.remove_journals(self.mark[0])\n"
_KEY = "        keys[ledger_id] = body[20:]\n"

_EMPTY_LOG = """        self.buffer = bytearray((b"BKLO" + struct.pack(">i", 1)).ljust(1024, b"\\0"))
"""

BROKEN: dict[tuple[str, int], tuple[Changes, ...]] = {
    ("bookie", 1): (
        (('        disk.sync_folder("current")\n        self.group', "        self.group"),),
        (("        return offset\n", "        return offset + 4\n"),),
        (
            (
                "        offset = self.group_offset + len(self.group)\n",
                "        offset = self.group_offset + len(self.group)\n        self.file.sync()\n",
            ),
        ),
        (("zeros = left - 8 if left >= 8 else left - 8 + 512", "zeros = left"),),
        (
            (
                "        self.file.write(offset, data)\n        self.file.sync()",
                "        self.file.write(offset, data)",
            ),
        ),
        (
            (
                "        self.file.write(offset, data)\n",
                "        self.file.write(offset, bytes(len(data)))\n",
            ),
        ),
    ),
    ("bookie", 2): (
        (("length == -0x100 and at + 8", "length == 0x7FFFFFFF and at + 8"),),
        ((" or at + 4 + length > len(data)", ""),),
        (("    found, at = [], start\n", "    found, at = [], 512\n"),),
    ),
    ("bookie", 3): (
        (("return self.ledgers.get(ledger_id, {}).get(entry_id)", "return None"),),
        (
            (
                "return self.ledgers.get(ledger_id, {}).get(entry_id)",
                'return self.ledgers.get(ledger_id, {}).get(entry_id, b"")',
            ),
        ),
        (("        if entry_id in kept:\n            return\n", ""),),
        (("max(self.last.get(ledger_id, -1), entry_id)", "entry_id"),),
        (("        self.size += len(data)\n", "        self.size += len(data) + 1\n"),),
        (("in sorted(self.ledgers[ledger_id])", "in self.ledgers[ledger_id]"),),
    ),
    ("bookie", 4): (
        (("        return self.size() - len(entry)\n", "        return self.written\n"),),
        ((_EMPTY_LOG, _EMPTY_LOG + "        file.write(0, bytes(self.buffer[:8]))\n"),),
        (
            (
                "            self.file.write(self.written, bytes(self.buffer))\n",
                "            self.all = getattr(self, 'all', b'') + self.buffer\n"
                "            self.file.write(0, bytes(self.all))\n",
            ),
        ),
        (
            (
                "            self.buffer.clear()\n        self.file.sync()",
                "            self.buffer.clear()",
            ),
        ),
        (('(b"BKLO" + struct.pack(">i", 1))', 'b""'),),
        (
            (
                "    return file.read(offset, length)\n",
                "    return file.read(offset, length) + b' '\n",
            ),
        ),
        (("if (found_ledger, found_entry) != (ledger_id, entry_id):", "if not found_ledger:"),),
        (
            (
                "    if length < 16 or offset + length > file.size():\n        return None\n"
                "    return file.read(offset, length)\n",
                "    data = file.read(offset, max(0, length))\n"
                "    return data if len(data) == length >= 16 else None\n",
            ),
        ),
        (("return log_id << 32 | offset", "return log_id << 31 | offset"),),
    ),
    ("bookie", 5): (
        ((_FLUSH_NEW, "self.disk.create(self.path) if is_new"), (_RENAME, "            pass")),
        (("range(len(folders), 0, -1)", "range(len(folders), len(folders) - 1, -1)"),),
        (("int(self.fenced)", "0"),),
        (("        index.fenced = state & 1 == 1\n", ""),),
        (("sorted(self.known.items())", "list(self.known.items())"),),
        (("        if missing:\n", "        if not self.path:\n"),),
        (
            (
                "        self.must_sync = False\n",
                "        disk.create(path + '.new')\n        self.must_sync = False\n",
            ),
        ),
        (("not self.changed and not self.must_sync:", "self.path == '':"),),
        (("        index.must_sync = True\n", ""),),
        (("slots[: len(slots) // 8 * 8]", 'slots.ljust(-(-len(slots) // 8) * 8, b"\\1")'),),
        (("if not 0 <= lac_size <= 1004 - key_size:", "if lac_size > 1004 - key_size:"),),
    ),
    ("bookie", 6): (
        (
            ('disk.create("current/lastMark.new")', 'disk.create("current/lastMark")'),
            ('    disk.rename("current/lastMark.new", "current/lastMark")\n', ""),
        ),
        (('"current/lastMark")\n    disk.sync_folder("current")\n', '"current/lastMark")\n'),),
        (("if min(file_id, offset) >= 0 else", "if min(file_id, offset) > 0 else"),),
        (("if min(file_id, offset) >= 0 else (0, 0)", ""),),
        (
            (
                "        self.entries = bookie.set_memtable_aside()\n",
                "        self.entries = bookie.set_memtable_aside()\n        bookie.sync_entry_log()\n",
            ),
        ),
        ((_SYNC_LOG, ""), (_FLUSH, _FLUSH + _SYNC_LOG)),
        ((_FLUSH, ""), (_MOVE, _MOVE + _FLUSH)),
        (
            ("self.mark = bookie.synced()\n", "pass\n"),
            (_MOVE, "        self.mark = bookie.synced()\n" + _MOVE),
        ),
        ((_MOVE, ""), (_REMOVE, _REMOVE + _MOVE)),
        ((_REMOVE, ""),),
        (("old[: max(0, len(old) - max_backups)]", "old[:-max_backups]"),),
    ),
    ("bookie", 7): (
        (("if file_id and file_id not in needed:", "if file_id < 0:"),),
        (("        bookie.fence(ledger_id)", "        pass"),),
        (("offset if each == file_id else 0", "0"),),
        ((_KEY, _KEY + "        bookie.create_ledger(ledger_id, body[20:])\n"),),
        (
            (
                "        if ledger_id not in keys:\n            return\n"
                "        bookie.create_ledger(ledger_id, keys[ledger_id])\n",
                '        bookie.create_ledger(ledger_id, keys.get(ledger_id, b""))\n',
            ),
        ),
        (("            end = each, at + 4 + len(body)\n", ""),),
    ),
}
"""By step: changes to the solution that break the first line of its contract, the second, ..."""

LINES = [
    (*step, number) for step, broken in BROKEN.items() for number, _ in enumerate(broken, start=1)
]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "number", "line"), LINES)
def test_a_broken_line_of_a_contract_is_named_and_no_other(
    name: str, number: int, line: int, tmp_path: Path
) -> None:
    card = refused(tmp_path, name, number, *BROKEN[name, number][line - 1])
    contract = track(name).step(number).contract
    named = [each.words for each in contract if each.words in card.message]
    assert named == [contract[line - 1].words], card


def test_every_line_of_a_simulated_step_has_a_test() -> None:
    for step in track("bookie").steps:
        if not step.is_live:
            assert len(BROKEN["bookie", step.number]) == len(step.contract), step.number
