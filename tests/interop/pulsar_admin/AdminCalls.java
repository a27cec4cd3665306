import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.LongRunningProcessStatus;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.common.util.ObjectMapperFactory;

/**
 * Calls a broker with Apache Pulsar's admin library, running every call once, in a fixed order.
 *
 * <p>The arguments are the broker's HTTP and service URLs, its cluster's name, and a prefix for
 * tenants and topics. Each call prints its name, "ok" or the exception's class and HTTP status, and
 * the result or the reason, separated by tabs.
 */
public class AdminCalls {
    interface Call {
        Object make() throws Exception;
    }

    interface Action {
        void run() throws Exception;
    }

    final PulsarAdmin admin;
    final PulsarClient client;
    final String cluster;
    final String prefix;

    AdminCalls(PulsarAdmin admin, PulsarClient client, String cluster, String prefix) {
        this.admin = admin;
        this.client = client;
        this.cluster = cluster;
        this.prefix = prefix;
    }

    public static void main(String[] arguments) throws Exception {
        PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(arguments[0])
            .connectionTimeout(20, TimeUnit.SECONDS).readTimeout(20, TimeUnit.SECONDS)
            .requestTimeout(30, TimeUnit.SECONDS).build();
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[1])
            .operationTimeout(20, TimeUnit.SECONDS).build();
        AdminCalls calls = new AdminCalls(admin, client, arguments[2], arguments[3]);
        ClusterCalls.make(calls);
        NamespaceCalls.make(calls);
        TopicCalls.make(calls);
        SchemaCalls.make(calls);
        ClusterCalls.cleanUp(calls);
        System.exit(0);
    }

    /** Makes a call with a return value and prints a line. */
    void ask(String name, Call call) {
        System.out.println(name + "\t" + outcome(call));
    }

    /** Makes a call without a return value and prints a line. */
    void run(String name, Action action) {
        ask(name, () -> {
            action.run();
            return "";
        });
    }

    private String outcome(Call call) {
        try {
            return "ok\t" + oneLine(shown(call.make()));
        } catch (PulsarAdminException problem) {
            return problem.getClass().getSimpleName() + " " + problem.getStatusCode() + "\t"
                + oneLine(String.valueOf(problem.getHttpError()));
        } catch (Throwable problem) {
            return problem.getClass().getSimpleName() + " -\t"
                + oneLine(String.valueOf(problem.getMessage()));
        }
    }

    private String oneLine(String text) {
        return text.replace(prefix, "PREFIX-").replaceAll("[\\t\\r\\n]+", " ");
    }

    private static String shown(Object result) throws Exception {
        if (result instanceof Optional<?> optional) {
            return optional.isPresent() ? shown(optional.get()) : "none";
        }
        if (result instanceof LongRunningProcessStatus status) {
            return String.valueOf(status.status);
        }
        if (result instanceof MessageId || result instanceof String || result == null) {
            return String.valueOf(result);
        }
        if (result instanceof Message<?> message) {
            return new String(message.getData()) + " " + new TreeMap<>(message.getProperties());
        }
        if (result instanceof Collection<?> collection) {
            List<String> parts = new ArrayList<>();
            for (Object each : collection) {
                parts.add(shown(each));
            }
            return (result instanceof Set ? new TreeSet<>(parts) : parts).toString();
        }
        if (result instanceof Map<?, ?> map) {
            Map<String, String> parts = new TreeMap<>();
            for (Map.Entry<?, ?> each : map.entrySet()) {
                parts.put(String.valueOf(each.getKey()), shown(each.getValue()));
            }
            return new LinkedHashMap<>(parts).toString();
        }
        return ObjectMapperFactory.getMapper().writer().writeValueAsString(result);
    }
}
