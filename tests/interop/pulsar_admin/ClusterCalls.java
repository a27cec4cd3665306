import java.util.Set;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.TenantInfo;

/** Clusters, brokers, bookies and tenants. */
final class ClusterCalls {
    static void make(AdminCalls calls) throws Exception {
        clusters(calls, calls.admin);
        brokers(calls, calls.admin);
        tenants(calls, calls.admin);
    }

    private static void clusters(AdminCalls calls, PulsarAdmin admin) {
        calls.ask("clusters.getClusters", () -> admin.clusters().getClusters());
        calls.ask("clusters.getCluster",
            () -> admin.clusters().getCluster(calls.cluster).getBrokerServiceUrl() != null);
        calls.ask("clusters.getCluster unknown", () -> admin.clusters().getCluster("nowhere"));
        calls.run("clusters.createCluster", () -> admin.clusters().createCluster(
            calls.prefix + "c", ClusterData.builder().serviceUrl("http://127.0.0.1:1").build()));
        calls.run("clusters.updateCluster", () -> admin.clusters().updateCluster(
            calls.prefix + "c", ClusterData.builder().serviceUrl("http://127.0.0.1:2").build()));
        calls.run("clusters.deleteCluster", () -> admin.clusters().deleteCluster(calls.prefix + "c"));
        calls.ask("clusters.getPeerClusterNames",
            () -> admin.clusters().getPeerClusterNames(calls.cluster));
        calls.ask("clusters.getFailureDomains",
            () -> admin.clusters().getFailureDomains(calls.cluster));
        calls.ask("clusters.getNamespaceIsolationPolicies",
            () -> admin.clusters().getNamespaceIsolationPolicies(calls.cluster));
    }

    private static void brokers(AdminCalls calls, PulsarAdmin admin) {
        calls.ask("brokers.getActiveBrokers", () -> admin.brokers().getActiveBrokers().size() > 0);
        calls.ask("brokers.getActiveBrokers of cluster",
            () -> admin.brokers().getActiveBrokers(calls.cluster).size() > 0);
        calls.ask("brokers.getActiveBrokers of unknown cluster",
            () -> admin.brokers().getActiveBrokers("nowhere").size() > 0);
        calls.ask("brokers.getLeaderBroker",
            () -> admin.brokers().getLeaderBroker().getBrokerId().contains(":"));
        calls.ask("brokers.getVersion", () -> !admin.brokers().getVersion().isEmpty());
        calls.run("brokers.healthcheck", () -> admin.brokers().healthcheck());
        calls.ask("brokers.getOwnedNamespaces", () -> {
            String broker = admin.brokers().getActiveBrokers(calls.cluster).get(0);
            return admin.brokers().getOwnedNamespaces(calls.cluster, broker).getClass() != null;
        });
        calls.ask("brokers.getAllDynamicConfigurations",
            () -> admin.brokers().getAllDynamicConfigurations());
        calls.ask("brokers.getDynamicConfigurationNames",
            () -> admin.brokers().getDynamicConfigurationNames().size() > 0);
        calls.ask("brokers.getRuntimeConfigurations",
            () -> admin.brokers().getRuntimeConfigurations().get("clusterName"));
        calls.ask("brokers.getInternalConfigurationData",
            () -> admin.brokers().getInternalConfigurationData() != null);
        calls.run("brokers.updateDynamicConfiguration", () ->
            admin.brokers().updateDynamicConfiguration("brokerShutdownTimeoutMs", "60000"));
        calls.run("brokers.deleteDynamicConfiguration", () ->
            admin.brokers().deleteDynamicConfiguration("brokerShutdownTimeoutMs"));
        calls.run("brokers.backlogQuotaCheck", () -> admin.brokers().backlogQuotaCheck());
        calls.ask("bookies.getBookies", () -> admin.bookies().getBookies().getBookies().size() > 0);
        calls.ask("bookies.getBookiesRackInfo", () -> admin.bookies().getBookiesRackInfo());
        calls.ask("brokerStats.getLoadReport", () -> admin.brokerStats().getLoadReport() != null);
        calls.ask("brokerStats.getTopics", () -> admin.brokerStats().getTopics() != null);
    }

    private static void tenants(AdminCalls calls, PulsarAdmin admin) throws Exception {
        String tenant = calls.prefix + "t";
        TenantInfo info = TenantInfo.builder().allowedClusters(Set.of(calls.cluster)).build();
        TenantInfo more = TenantInfo.builder().allowedClusters(Set.of(calls.cluster))
            .adminRoles(Set.of("alice")).build();
        TenantInfo elsewhere = TenantInfo.builder().allowedClusters(Set.of("nowhere")).build();
        TenantInfo nowhere = TenantInfo.builder().allowedClusters(Set.of()).build();
        calls.ask("tenants.getTenants", () -> admin.tenants().getTenants().contains("public"));
        calls.run("tenants.createTenant", () -> admin.tenants().createTenant(tenant, info));
        calls.run("tenants.createTenant again", () -> admin.tenants().createTenant(tenant, info));
        calls.run("tenants.createTenant in unknown cluster",
            () -> admin.tenants().createTenant(calls.prefix + "x", elsewhere));
        calls.run("tenants.createTenant in no cluster",
            () -> admin.tenants().createTenant(calls.prefix + "x", nowhere));
        calls.run("tenants.createTenant with a wrong name",
            () -> admin.tenants().createTenant("a b", info));
        calls.ask("tenants.getTenantInfo", () -> {
            TenantInfo found = admin.tenants().getTenantInfo(tenant);
            return found.getAdminRoles().size() + " " + found.getAllowedClusters().size();
        });
        calls.run("tenants.updateTenant", () -> admin.tenants().updateTenant(tenant, more));
        calls.ask("tenants.getTenantInfo after update",
            () -> admin.tenants().getTenantInfo(tenant).getAdminRoles());
        calls.run("tenants.updateTenant unknown",
            () -> admin.tenants().updateTenant(calls.prefix + "x", info));
        calls.ask("tenants.getTenantInfo unknown",
            () -> admin.tenants().getTenantInfo(calls.prefix + "x"));
        calls.run("tenants.deleteTenant unknown",
            () -> admin.tenants().deleteTenant(calls.prefix + "x"));
    }

    static void cleanUp(AdminCalls calls) {
        PulsarAdmin admin = calls.admin;
        String tenant = calls.prefix + "t";
        calls.run("tenants.deleteTenant with namespaces", () -> admin.tenants().deleteTenant(tenant));
        calls.run("namespaces.deleteNamespace with topics",
            () -> admin.namespaces().deleteNamespace(tenant + "/ns"));
        calls.run("namespaces.deleteNamespace by force",
            () -> admin.namespaces().deleteNamespace(tenant + "/ns", true));
        calls.run("namespaces.deleteNamespace empty",
            () -> admin.namespaces().deleteNamespace(tenant + "/empty"));
        calls.run("namespaces.deleteNamespace unknown",
            () -> admin.namespaces().deleteNamespace(tenant + "/empty"));
        calls.run("tenants.deleteTenant", () -> admin.tenants().deleteTenant(tenant));
        calls.ask("tenants.getTenants after delete",
            () -> admin.tenants().getTenants().contains(tenant));
    }
}
