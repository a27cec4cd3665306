import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;

/** Unsupported requests are rejected at once, with a reason. */
final class RefusalScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("transactions_are_refused", RefusalScenarios::transactions);
        scenarios.put("names_are_refused", RefusalScenarios::names);
        scenarios.put("large_messages_are_refused", RefusalScenarios::largeMessages);
        scenarios.put("strangers_are_refused", RefusalScenarios::strangers);
        scenarios.put("friends_are_let_in", RefusalScenarios::friends);
    }

    private static void transactions(World world) throws Exception {
        World.refused(PulsarClientException.class, "transactions are not supported", () ->
            PulsarClient.builder().serviceUrl(world.serviceUrl).enableTransaction(true).build());
    }

    private static void names(World world) throws Exception {
        World.refused(PulsarClientException.class, "non-persistent", () ->
            world.producing("non-persistent://public/default/x").create());
    }

    private static void largeMessages(World world) throws Exception {
        Producer<byte[]> producer = world.keep(
            world.producing(world.topic("large")).enableBatching(false).create());
        World.refused(PulsarClientException.InvalidMessageException.class, "", () ->
            producer.send(new byte[6 * 1024 * 1024]));
        producer.send(World.bytes("small"));
    }

    private static void strangers(World world) throws Exception {
        World.refused(PulsarClientException.AuthenticationException.class, "token", () ->
            world.producing(world.topic("closed")).create());
    }

    private static void friends(World world) throws Exception {
        Consumer<byte[]> consumer = world.keep(world.consuming(world.topic("open")).subscribe());
        world.send(world.topic("open"), 1);
        World.check(consumer.receive(World.SOON_S, TimeUnit.SECONDS) != null, "no message");
    }
}
