"""Update the lists of keys in tests/worlds/live/config/keys."""

from tests.interop.config_keys import KEYS, in_the_jars

for name, lines in in_the_jars().items():
    (KEYS / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
