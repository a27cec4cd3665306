"""Payloads of various sizes, including an empty one."""

PASSWORD = b"pw"
PAYLOADS = [b"", *(b"entry %d " % number * (1 + number % 100) for number in range(1, 300))]
LAST_ENTRY_ID = len(PAYLOADS) - 1
LENGTH = sum(map(len, PAYLOADS))
