import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** Every kind of subscription. */
final class SubscriptionScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("exclusive_subscription", SubscriptionScenarios::exclusive);
        scenarios.put("failover_subscription", SubscriptionScenarios::failover);
        scenarios.put("shared_subscription", SubscriptionScenarios::shared);
        scenarios.put("key_shared_subscription", SubscriptionScenarios::keyShared);
        scenarios.put("key_shared_batches", SubscriptionScenarios::keySharedBatches);
        scenarios.put("sticky_ranges", SubscriptionScenarios::stickyRanges);
        scenarios.put("several_topics", SubscriptionScenarios::severalTopics);
        scenarios.put("pattern", SubscriptionScenarios::pattern);
        scenarios.put("listener", SubscriptionScenarios::listener);
        scenarios.put("unsubscribe", SubscriptionScenarios::unsubscribe);
        scenarios.put("initial_position", SubscriptionScenarios::initialPosition);
    }

    private static void exclusive(World world) throws Exception {
        String topic = world.topic("exclusive");
        Consumer<byte[]> first = world.consuming(topic).subscribe();
        World.refused(PulsarClientException.ConsumerBusyException.class, "",
            () -> world.consuming(topic).subscribe());
        first.close();
        world.keep(world.consuming(topic).subscribe());
    }

    private static void failover(World world) throws Exception {
        String topic = world.topic("failover");
        BlockingQueue<String> active = new LinkedBlockingQueue<>();
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (String name : List.of("a", "b")) {
            consumers.add(world.keep(world.consuming(topic).consumerName(name)
                .subscriptionType(SubscriptionType.Failover)
                .consumerEventListener(new Active(name, active)).subscribe()));
        }
        World.same("a", active.poll(World.SOON_S, TimeUnit.SECONDS));
        world.send(topic, 10);
        World.same(World.numbers(0, 10), World.texts(World.receive(consumers.get(0), 10)));
        consumers.get(0).close();
        World.same("b", active.poll(World.SOON_S, TimeUnit.SECONDS));
        World.same(World.numbers(0, 10), World.texts(World.receive(consumers.get(1), 10)));
    }

    private record Active(String name, BlockingQueue<String> active) implements ConsumerEventListener {
        @Override
        public void becameActive(Consumer<?> consumer, int partition) {
            active.add(name);
        }

        @Override
        public void becameInactive(Consumer<?> consumer, int partition) {
        }
    }

    private static void shared(World world) throws Exception {
        String topic = world.topic("shared");
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            consumers.add(world.keep(world.consuming(topic).receiverQueueSize(5)
                .subscriptionType(SubscriptionType.Shared).subscribe()));
        }
        world.send(topic, 20);
        List<String> first = World.texts(World.receive(consumers.get(0), 5));
        List<String> second = World.texts(World.receive(consumers.get(1), 5));
        Set<String> all = new HashSet<>(first);
        all.addAll(second);
        World.same(10, all.size());
    }

    private static void keyShared(World world) throws Exception {
        String topic = world.topic("keyshared");
        try (Producer<byte[]> producer = world.producing(topic).enableBatching(false).create()) {
            keysStayWithTheirConsumers(world, topic, producer);
        }
    }

    private static void keySharedBatches(World world) throws Exception {
        String topic = world.topic("keybatches");
        try (Producer<byte[]> producer = world.producing(topic).enableBatching(true)
                .batcherBuilder(BatcherBuilder.KEY_BASED).create()) {
            keysStayWithTheirConsumers(world, topic, producer);
        }
    }

    private static void keysStayWithTheirConsumers(
            World world, String topic, Producer<byte[]> producer) throws Exception {
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            consumers.add(world.keep(world.consuming(topic)
                .subscriptionType(SubscriptionType.Key_Shared).subscribe()));
        }
        for (int number = 0; number < 200; number++) {
            producer.newMessage().key("key-" + number % 10).value(World.bytes("" + number)).sendAsync();
        }
        producer.flush();
        Map<String, Set<Integer>> owners = new HashMap<>();
        Map<String, Integer> last = new HashMap<>();
        int count = 0;
        for (int at = 0; at < consumers.size(); at++) {
            for (Message<byte[]> each : World.rest(consumers.get(at))) {
                owners.computeIfAbsent(each.getKey(), key -> new HashSet<>()).add(at);
                int number = Integer.parseInt(new String(each.getData()));
                World.check(last.getOrDefault(each.getKey(), -1) < number, "out of order");
                last.put(each.getKey(), number);
                count++;
            }
        }
        World.same(200, count);
        for (Set<Integer> each : owners.values()) {
            World.same(1, each.size());
        }
    }

    private static void stickyRanges(World world) throws Exception {
        String topic = world.topic("sticky");
        Consumer<byte[]> low = world.keep(sticky(world, topic, 0, 32767));
        World.refused(PulsarClientException.class, "", () -> sticky(world, topic, 30000, 40000));
        Consumer<byte[]> high = world.keep(sticky(world, topic, 32768, 65535));
        try (Producer<byte[]> producer = world.producing(topic).enableBatching(false).create()) {
            for (int number = 0; number < 50; number++) {
                producer.newMessage().key("" + number).value(World.bytes("" + number)).send();
            }
        }
        int count = World.rest(low).size() + World.rest(high).size();
        World.same(50, count);
    }

    private static Consumer<byte[]> sticky(World world, String topic, int from, int to)
            throws PulsarClientException {
        return world.consuming(topic).subscriptionType(SubscriptionType.Key_Shared)
            .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(from, to)))
            .subscribe();
    }

    private static void severalTopics(World world) throws Exception {
        List<String> topics = List.of(world.topic("one"), world.topic("two"));
        Consumer<byte[]> consumer = world.keep(world.client.newConsumer().topics(topics)
            .subscriptionName("sub").subscribe());
        for (String each : topics) {
            world.send(each, 5);
        }
        Set<String> from = new HashSet<>();
        for (Message<byte[]> each : World.receive(consumer, 10)) {
            from.add(each.getTopicName());
            consumer.acknowledge(each);
        }
        World.same(new HashSet<>(topics), from);
    }

    private static void pattern(World world) throws Exception {
        world.send(world.topic("pattern-a"), 1);
        world.partitioned("pattern-b", 2);
        world.send(world.topic("pattern-b"), 2);
        Pattern topics = Pattern.compile(world.topic("pattern-.*"));
        Consumer<byte[]> consumer = world.keep(world.client.newConsumer().topicsPattern(topics)
            .patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS).subscriptionName("sub")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe());
        World.receive(consumer, 3);
        world.send(world.topic("pattern-c"), 1);
        World.same(world.topic("pattern-c"), World.receive(consumer).getTopicName());
    }

    private static void listener(World world) throws Exception {
        String topic = world.topic("listener");
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        world.keep(world.consuming(topic).messageListener((consumer, message) -> {
            heard.add(new String(message.getData()));
            consumer.acknowledgeAsync(message);
        }).subscribe());
        world.send(topic, 10);
        List<String> all = new ArrayList<>();
        while (all.size() < 10) {
            all.add(heard.poll(World.SOON_S, TimeUnit.SECONDS));
        }
        World.same(World.numbers(0, 10), all);
    }

    private static void unsubscribe(World world) throws Exception {
        String topic = world.topic("unsubscribe");
        Consumer<byte[]> consumer = world.consuming(topic).subscribe();
        world.send(topic, 3);
        for (Message<byte[]> each : World.receive(consumer, 3)) {
            consumer.acknowledge(each);
        }
        consumer.unsubscribe();
        consumer.close();
        Consumer<byte[]> again = world.keep(world.consuming(topic).subscribe());
        World.same(World.numbers(0, 3), World.texts(World.receive(again, 3)));
    }

    private static void initialPosition(World world) throws Exception {
        String topic = world.topic("initialposition");
        world.send(topic, 3);
        Consumer<byte[]> consumer = world.keep(world.client.newConsumer().topic(topic)
            .subscriptionName("latest").subscribe());
        world.send(topic, 1);
        World.same(World.numbers(0, 1), World.texts(World.receive(consumer, 1)));
        World.same(List.of(), World.rest(consumer));
    }
}
