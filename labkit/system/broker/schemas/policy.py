"""A namespace's schema policies: which schemas clients may add to its topics.

In Pulsar: `common/policies/data/Policies.java`, `SchemaCompatibilityStrategy.java`.
"""

from dataclasses import dataclass

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import NamespacePolicies, stored_policies
from labkit.system.broker.schemas.checks import Strategy
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.proto.pulsar_pb2 import ServerError

UNDEFINED = "UNDEFINED"
DEFAULT_STRATEGY = Strategy.FULL
_STRATEGIES = {strategy.value: strategy for strategy in Strategy}
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
    """Raise the errors of `NamespacePolicies.decode`, and `BrokerError` for an unknown strategy."""
    stored, _ = await stored_policies(store, namespace)
    policies = NamespacePolicies.decode(namespace, stored)
    return SchemaPolicy(
        _strategy(namespace, policies),
        policies.allow_auto_update_schema is not False,
        policies.schema_validation_enforced is True,
    )


def _strategy(namespace: str, policies: NamespacePolicies) -> Strategy:
    """Return the compatibility strategy; older versions of Pulsar store it under another key."""
    name = policies.schema_strategy
    if name in (None, UNDEFINED):
        name = policies.legacy_schema_strategy
    if name is None:
        return DEFAULT_STRATEGY
    found = {**_STRATEGIES, **_LEGACY_STRATEGIES}.get(name)
    if found is None:
        raise BrokerError(
            ServerError.MetadataError,
            f"unknown schema compatibility strategy {name[:80]!r} in the policies of"
            f" {namespace}; valid strategies: {', '.join(_STRATEGIES)}",
        )
    return found
