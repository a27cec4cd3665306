"""All fuzz targets by name."""

from tests.fuzz.broker_targets import BROKER_TARGETS
from tests.fuzz.client_targets import CLIENT_TARGETS
from tests.fuzz.directory_targets import DIRECTORY_TARGETS
from tests.fuzz.link_targets import LINK_TARGETS
from tests.fuzz.metadata_targets import METADATA_TARGETS
from tests.fuzz.pulsar_targets import PULSAR_TARGETS
from tests.fuzz.storage_targets import STORAGE_TARGETS
from tests.fuzz.wire_targets import WIRE_TARGETS

TARGETS = {
    target.name: target
    for target in (
        *WIRE_TARGETS,
        *CLIENT_TARGETS,
        *STORAGE_TARGETS,
        *DIRECTORY_TARGETS,
        *METADATA_TARGETS,
        *PULSAR_TARGETS,
        *BROKER_TARGETS,
        *LINK_TARGETS,
    )
}
