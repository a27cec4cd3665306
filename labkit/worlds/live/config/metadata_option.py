"""Combines the option `--zookeeper` with a configuration file that also sets a metadata store.

The servers in the option replace those in the file. The path and the ledger manager must be the
same in both, because a bookie with a different path would belong to another cluster.
"""

from dataclasses import replace

from labkit.system.metadata.ledger_layout import LedgerLayout
from labkit.system.metadata.location import DEFAULT_LEDGERS_ROOT, MetadataLocation, parse_location
from labkit.system.model.errors import BKIncorrectParameterException


def resolve_metadata_option(
    option: str, keys: str, path: str, layout: LedgerLayout | None
) -> MetadataLocation:
    """Return the metadata location specified by the option and the file.

    `path` and `layout` are the values that the file gives for the ledgers path and the layout.
    `keys` lists the keys that set them, for error messages. The default path never causes a
    conflict. If the option does not specify a layout, the layout in the file is used. Raises
    `BKIncorrectParameterException` if the option and the file conflict.
    """
    location = parse_location(option)
    differs = path not in (DEFAULT_LEDGERS_ROOT, location.chroot + location.ledgers_root)
    if differs or (layout and location.layout and layout != location.layout):
        kind = layout.name if layout else "null"
        servers = location.servers.replace(",", ";")
        raise BKIncorrectParameterException(
            f"--zookeeper {option} refers to {location}, but {keys} in the file selects another"
            f" path or ledger manager: use --zookeeper 'zk+{kind}://{servers}{path}', or remove"
            " the key from the file"
        )
    return replace(location, layout=location.layout or layout)
