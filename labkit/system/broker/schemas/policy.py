"""The compatibility strategy of a namespace: which schemas clients may add to its topics.

In Pulsar: `common/policies/data/Policies.java`, `SchemaCompatibilityStrategy.java`.
"""

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import NamespacePolicies
from labkit.system.broker.schemas.checks import Strategy
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


def compatibility_strategy(namespace: str, policies: NamespacePolicies) -> Strategy:
    """Raise `BrokerError` if the strategy is unknown.

    Older versions of Pulsar store the strategy under another key.
    """
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
