"""A namespace's schema policies.

The namespace's policies contain them as schema_compatibility_strategy (or else the older
schema_auto_update_compatibility_strategy), is_allow_auto_update_schema and
schema_validation_enforced.

In Pulsar: `common/policies/data/Policies.java`, `SchemaCompatibilityStrategy.java`.
"""

from dataclasses import dataclass
from typing import Any

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import stored_policies
from labkit.system.broker.schemas.checks import Strategy
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.proto.pulsar_pb2 import ServerError

STRATEGY = "schema_compatibility_strategy"
ALLOW_AUTO_UPDATE = "is_allow_auto_update_schema"
VALIDATION_ENFORCED = "schema_validation_enforced"
UNDEFINED = "UNDEFINED"
DEFAULT_STRATEGY = Strategy.FULL
_STRATEGIES = {strategy.value: strategy for strategy in Strategy}
_LEGACY_STRATEGY = "schema_auto_update_compatibility_strategy"
_LEGACY_STRATEGIES = {
    "AutoUpdateDisabled": Strategy.ALWAYS_INCOMPATIBLE,
    "AlwaysCompatible": Strategy.ALWAYS_COMPATIBLE,
    "Backward": Strategy.BACKWARD,
    "BackwardTransitive": Strategy.BACKWARD_TRANSITIVE,
    "Forward": Strategy.FORWARD,
    "ForwardTransitive": Strategy.FORWARD_TRANSITIVE,
    "Full": Strategy.FULL,
    "FullTransitive": Strategy.FULL_TRANSITIVE,
}


@dataclass(frozen=True, slots=True)
class SchemaPolicy:
    """A namespace's rules for schemas.

    If `allow_auto_update` is set, clients may add schemas. If `validation_enforced` is set,
    producers of a topic that has a schema must have one, too.
    """

    strategy: Strategy
    allow_auto_update: bool
    validation_enforced: bool


async def read_schema_policy(store: MetadataStore, namespace: str) -> SchemaPolicy:
    """Raise `BrokerError` if the namespace's strategy is unknown."""
    policies, _ = await stored_policies(store, namespace)
    return SchemaPolicy(
        _strategy(namespace, policies),
        policies.get(ALLOW_AUTO_UPDATE) is not False,
        policies.get(VALIDATION_ENFORCED) is True,
    )


def _strategy(namespace: str, policies: dict[str, Any]) -> Strategy:
    name = policies.get(STRATEGY)
    if name in (None, UNDEFINED):
        name = policies.get(_LEGACY_STRATEGY)
    if name is None:
        return DEFAULT_STRATEGY
    found = {**_STRATEGIES, **_LEGACY_STRATEGIES}.get(str(name))
    if found is None:
        raise BrokerError(
            ServerError.MetadataError,
            f"unknown schema compatibility strategy {str(name)[:80]!r} in the policies of"
            f" {namespace}; valid strategies: {', '.join(_STRATEGIES)}",
        )
    return found
