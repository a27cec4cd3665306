"""The option `--zookeeper`, combined with a configuration file that also sets a metadata store.

The option's servers replace the file's. The path and the ledger manager must agree, because a
bookie at another path would belong to another cluster.
"""

from dataclasses import replace

from labkit.system.metadata.ledger_layout import LedgerLayout
from labkit.system.metadata.location import DEFAULT_LEDGERS_ROOT, MetadataLocation, parse_location
from labkit.system.model.errors import BKIncorrectParameterException


def resolve_metadata_option(
    option: str, keys: str, path: str, layout: LedgerLayout | None
) -> MetadataLocation:
    """Return the metadata location that the option and the file specify together.

    `path` is the ledgers path in the file, `layout` the file's ledger layout, and `keys` lists
    their keys for error messages. A default `path` never causes a conflict, and if the option does
    not specify a layout, the layout from the file applies. Raises `BKIncorrectParameterException`
    if option and file conflict.
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
