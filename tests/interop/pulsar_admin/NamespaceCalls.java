import java.util.EnumSet;
import java.util.Set;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.common.policies.data.AuthAction;
import org.apache.pulsar.common.policies.data.AutoTopicCreationOverride;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.Policies;
import org.apache.pulsar.common.policies.data.PublishRate;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;

/** Namespaces and their policies. */
final class NamespaceCalls {
    static void make(AdminCalls calls) throws Exception {
        Namespaces namespaces = calls.admin.namespaces();
        String tenant = calls.prefix + "t";
        String ns = tenant + "/ns";
        calls.ask("namespaces.getNamespaces", () -> namespaces.getNamespaces(tenant));
        calls.ask("namespaces.getNamespaces of unknown tenant",
            () -> namespaces.getNamespaces(calls.prefix + "x"));
        calls.run("namespaces.createNamespace", () -> namespaces.createNamespace(ns));
        calls.run("namespaces.createNamespace again", () -> namespaces.createNamespace(ns));
        calls.run("namespaces.createNamespace with bundles",
            () -> namespaces.createNamespace(tenant + "/empty", 4));
        calls.run("namespaces.createNamespace with many bundles",
            () -> namespaces.createNamespace(tenant + "/many", 16));
        calls.run("namespaces.deleteNamespace with many bundles",
            () -> namespaces.deleteNamespace(tenant + "/many"));
        calls.run("namespaces.createNamespace with policies", () -> {
            Policies policies = new Policies();
            policies.message_ttl_in_seconds = 3600;
            policies.retention_policies = new RetentionPolicies(10, 10);
            namespaces.createNamespace(tenant + "/given", policies);
        });
        calls.ask("namespaces.getNamespaceMessageTTL given",
            () -> namespaces.getNamespaceMessageTTL(tenant + "/given"));
        calls.run("namespaces.deleteNamespace given",
            () -> namespaces.deleteNamespace(tenant + "/given"));
        calls.run("namespaces.createNamespace in unknown tenant",
            () -> namespaces.createNamespace(calls.prefix + "x/ns"));
        calls.run("namespaces.createNamespace in unknown cluster",
            () -> namespaces.createNamespace(tenant + "/far", Set.of("nowhere")));
        calls.ask("namespaces.getNamespaces after create", () -> namespaces.getNamespaces(tenant));
        calls.ask("namespaces.getTopics", () -> namespaces.getTopics(ns));
        calls.ask("namespaces.getTopics of unknown namespace",
            () -> namespaces.getTopics(tenant + "/none"));
        calls.ask("namespaces.getPolicies", () -> {
            Policies found = namespaces.getPolicies(ns);
            return found.bundles.getNumBundles() + " " + found.replication_clusters.size()
                + " " + found.message_ttl_in_seconds + " " + found.retention_policies;
        });
        calls.ask("namespaces.getPolicies of unknown namespace",
            () -> namespaces.getPolicies(tenant + "/none"));
        calls.ask("namespaces.getBundles", () -> namespaces.getBundles(ns));
        calls.ask("namespaces.getNamespaceReplicationClusters",
            () -> namespaces.getNamespaceReplicationClusters(ns).size());
        calls.run("namespaces.setNamespaceReplicationClusters",
            () -> namespaces.setNamespaceReplicationClusters(ns, Set.of(calls.cluster), true));
        calls.run("namespaces.setNamespaceReplicationClusters unknown",
            () -> namespaces.setNamespaceReplicationClusters(ns, Set.of("nowhere"), true));
        storage(calls, namespaces, ns);
        permissions(calls, namespaces, ns);
        limits(calls, namespaces, ns);
        calls.run("namespaces.unload", () -> namespaces.unload(ns));
        calls.run("namespaces.unloadNamespaceBundle",
            () -> namespaces.unloadNamespaceBundle(ns, "0x00000000_0x40000000"));
        calls.run("namespaces.splitNamespaceBundle", () ->
            namespaces.splitNamespaceBundle(ns, "0x00000000_0x40000000", false, null));
        calls.run("namespaces.clearNamespaceBacklog", () -> namespaces.clearNamespaceBacklog(ns));
        calls.run("namespaces.clearNamespaceBacklogForSubscription",
            () -> namespaces.clearNamespaceBacklogForSubscription(ns, "sub"));
        calls.run("namespaces.unsubscribeNamespace", () -> namespaces.unsubscribeNamespace(ns, "sub"));
        calls.ask("namespaces.getAntiAffinityNamespaces", () ->
            namespaces.getAntiAffinityNamespaces(tenant, calls.cluster, "group"));
    }

    private static void storage(AdminCalls calls, Namespaces namespaces, String ns) {
        calls.ask("namespaces.getRetention unset", () -> namespaces.getRetention(ns));
        for (int[] each : new int[][] {{60, 0}, {0, 100}, {-1, 0}, {0, -1}, {-2, 5}, {5, -2}}) {
            calls.run("namespaces.setRetention " + each[0] + " " + each[1], () ->
                namespaces.setRetention(ns, new RetentionPolicies(each[0], each[1])));
        }
        calls.run("namespaces.setRetention 60 100",
            () -> namespaces.setRetention(ns, new RetentionPolicies(60, 100)));
        calls.ask("namespaces.getRetention", () -> namespaces.getRetention(ns));
        calls.run("namespaces.setRetention of unknown namespace", () ->
            namespaces.setRetention(ns + "x", new RetentionPolicies(60, 100)));
        calls.ask("namespaces.getRetention of unknown namespace",
            () -> namespaces.getRetention(ns + "x"));
        calls.run("namespaces.setRetention below the quota", () ->
            namespaces.setRetention(ns, new RetentionPolicies(60, 1)));
        calls.run("namespaces.removeRetention", () -> namespaces.removeRetention(ns));
        calls.ask("namespaces.getRetention removed", () -> namespaces.getRetention(ns));
        calls.ask("namespaces.getNamespaceMessageTTL unset",
            () -> namespaces.getNamespaceMessageTTL(ns));
        calls.run("namespaces.setNamespaceMessageTTL",
            () -> namespaces.setNamespaceMessageTTL(ns, 3600));
        calls.run("namespaces.setNamespaceMessageTTL negative",
            () -> namespaces.setNamespaceMessageTTL(ns, -1));
        calls.ask("namespaces.getNamespaceMessageTTL", () -> namespaces.getNamespaceMessageTTL(ns));
        calls.run("namespaces.removeNamespaceMessageTTL",
            () -> namespaces.removeNamespaceMessageTTL(ns));
        calls.ask("namespaces.getBacklogQuotaMap unset", () -> namespaces.getBacklogQuotaMap(ns));
        calls.run("namespaces.setBacklogQuota", () -> namespaces.setBacklogQuota(ns,
            BacklogQuota.builder().limitSize(1 << 30)
                .retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception).build()));
        calls.ask("namespaces.getBacklogQuotaMap",
            () -> namespaces.getBacklogQuotaMap(ns).keySet());
        calls.run("namespaces.setBacklogQuota by age", () -> namespaces.setBacklogQuota(ns,
            BacklogQuota.builder().limitTime(3600)
                .retentionPolicy(BacklogQuota.RetentionPolicy.consumer_backlog_eviction).build(),
            BacklogQuota.BacklogQuotaType.message_age));
        calls.run("namespaces.removeBacklogQuota", () -> namespaces.removeBacklogQuota(ns));
        calls.run("namespaces.removeBacklogQuota by age", () -> namespaces.removeBacklogQuota(
            ns, BacklogQuota.BacklogQuotaType.message_age));
        calls.ask("namespaces.getPersistence unset", () -> namespaces.getPersistence(ns));
        calls.run("namespaces.setPersistence", () -> namespaces.setPersistence(
            ns, new PersistencePolicies(1, 1, 1, 0)));
        calls.run("namespaces.removePersistence", () -> namespaces.removePersistence(ns));
        calls.ask("namespaces.getDeduplicationStatus unset",
            () -> namespaces.getDeduplicationStatus(ns));
        calls.run("namespaces.setDeduplicationStatus",
            () -> namespaces.setDeduplicationStatus(ns, true));
        calls.ask("namespaces.getDeduplicationStatus", () -> namespaces.getDeduplicationStatus(ns));
        calls.run("namespaces.removeDeduplicationStatus",
            () -> namespaces.removeDeduplicationStatus(ns));
        calls.run("namespaces.setCompactionThreshold",
            () -> namespaces.setCompactionThreshold(ns, 1000));
        calls.ask("namespaces.getCompactionThreshold", () -> namespaces.getCompactionThreshold(ns));
        calls.run("namespaces.removeCompactionThreshold",
            () -> namespaces.removeCompactionThreshold(ns));
    }

    private static void permissions(AdminCalls calls, Namespaces namespaces, String ns) {
        calls.run("namespaces.grantPermissionOnNamespace", () -> namespaces.grantPermissionOnNamespace(
            ns, "alice", EnumSet.of(AuthAction.produce)));
        calls.ask("namespaces.getPermissions", () -> namespaces.getPermissions(ns));
        calls.run("namespaces.revokePermissionsOnNamespace",
            () -> namespaces.revokePermissionsOnNamespace(ns, "alice"));
        calls.ask("namespaces.getPermissionOnSubscription",
            () -> namespaces.getPermissionOnSubscription(ns));
        calls.run("namespaces.grantPermissionOnSubscription",
            () -> namespaces.grantPermissionOnSubscription(ns, "sub", Set.of("alice")));
    }

    private static void limits(AdminCalls calls, Namespaces namespaces, String ns) {
        calls.run("namespaces.setAutoTopicCreation", () -> namespaces.setAutoTopicCreation(ns,
            AutoTopicCreationOverride.builder().allowAutoTopicCreation(true)
                .topicType("non-partitioned").build()));
        calls.ask("namespaces.getAutoTopicCreation", () -> namespaces.getAutoTopicCreation(ns));
        calls.run("namespaces.removeAutoTopicCreation",
            () -> namespaces.removeAutoTopicCreation(ns));
        calls.run("namespaces.setPublishRate",
            () -> namespaces.setPublishRate(ns, new PublishRate(100, 1000)));
        calls.ask("namespaces.getPublishRate", () -> namespaces.getPublishRate(ns));
        calls.run("namespaces.removePublishRate", () -> namespaces.removePublishRate(ns));
        calls.run("namespaces.setDispatchRate", () -> namespaces.setDispatchRate(ns,
            DispatchRate.builder().dispatchThrottlingRateInMsg(100).build()));
        calls.ask("namespaces.getDispatchRate", () -> namespaces.getDispatchRate(ns) == null);
        calls.run("namespaces.removeDispatchRate", () -> namespaces.removeDispatchRate(ns));
        calls.run("namespaces.setMaxProducersPerTopic",
            () -> namespaces.setMaxProducersPerTopic(ns, 10));
        calls.ask("namespaces.getMaxProducersPerTopic",
            () -> namespaces.getMaxProducersPerTopic(ns));
        calls.run("namespaces.removeMaxProducersPerTopic",
            () -> namespaces.removeMaxProducersPerTopic(ns));
        calls.run("namespaces.setMaxConsumersPerTopic",
            () -> namespaces.setMaxConsumersPerTopic(ns, 10));
        calls.ask("namespaces.getMaxConsumersPerTopic",
            () -> namespaces.getMaxConsumersPerTopic(ns));
        calls.run("namespaces.setSubscriptionExpirationTime",
            () -> namespaces.setSubscriptionExpirationTime(ns, 10));
        calls.ask("namespaces.getSubscriptionExpirationTime",
            () -> namespaces.getSubscriptionExpirationTime(ns));
        calls.run("namespaces.setEncryptionRequiredStatus",
            () -> namespaces.setEncryptionRequiredStatus(ns, false));
        calls.run("namespaces.setDelayedDeliveryTracker reads",
            () -> namespaces.getDelayedDelivery(ns));
        calls.ask("namespaces.getSchemaCompatibilityStrategy",
            () -> namespaces.getSchemaCompatibilityStrategy(ns));
        calls.run("namespaces.setSchemaCompatibilityStrategy", () ->
            namespaces.setSchemaCompatibilityStrategy(ns, SchemaCompatibilityStrategy.FULL));
        calls.ask("namespaces.getSchemaValidationEnforced",
            () -> namespaces.getSchemaValidationEnforced(ns));
        calls.run("namespaces.setSchemaValidationEnforced",
            () -> namespaces.setSchemaValidationEnforced(ns, false));
        calls.ask("namespaces.getIsAllowAutoUpdateSchema",
            () -> namespaces.getIsAllowAutoUpdateSchema(ns));
        calls.run("namespaces.setOffloadThreshold",
            () -> namespaces.setOffloadThreshold(ns, 1 << 30));
        calls.ask("namespaces.getOffloadPolicies", () -> namespaces.getOffloadPolicies(ns));
        calls.run("namespaces.setInactiveTopicPolicies reads",
            () -> namespaces.getInactiveTopicPolicies(ns));
        calls.run("namespaces.setProperty", () -> namespaces.setProperty(ns, "k", "v"));
        calls.ask("namespaces.getProperties", () -> namespaces.getProperties(ns));
    }
}
