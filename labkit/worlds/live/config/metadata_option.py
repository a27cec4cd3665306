"""The option `--zookeeper` beside a configuration file that names a place of metadata, too.

The option replaces the file's servers.  A path or a ledger manager that the file names must be the
option's: a bookie at another path would be in another cluster.
"""

from dataclasses import replace

from labkit.system.metadata.ledger_layout import LedgerLayout
from labkit.system.metadata.place import DEFAULT_LEDGERS_ROOT, MetadataPlace, parse_place
from labkit.system.model.errors import BKIncorrectParameterException


def place_of_option(
    option: str, keys: str, path: str, layout: LedgerLayout | None
) -> MetadataPlace:
    """The place of metadata, for a file whose `keys` have this path to the ledgers and this layout.

    Raises `BKIncorrectParameterException` where they contradict each other.  A default path in a
    file says nothing, and without a layout in the option the file's counts.
    """
    place = parse_place(option)
    differs = path not in (DEFAULT_LEDGERS_ROOT, place.chroot + place.ledgers_root)
    if differs or (layout and place.layout and layout != place.layout):
        kind = layout.name if layout else "null"
        servers = place.servers.replace(",", ";")
        raise BKIncorrectParameterException(
            f"--zookeeper {option} names {place}, and {keys} another path or ledger manager: write"
            f" --zookeeper 'zk+{kind}://{servers}{path}', or remove the key from the file"
        )
    return replace(place, layout=place.layout or layout)
