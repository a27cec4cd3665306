import static org.apache.pulsar.client.api.ProducerAccessMode.Exclusive;
import static org.apache.pulsar.client.api.ProducerAccessMode.ExclusiveWithFencing;
import static org.apache.pulsar.client.api.ProducerAccessMode.WaitForExclusive;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;

/** Every kind of producer. */
final class ProducerScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("default_producer", ProducerScenarios::defaultProducer);
        scenarios.put("batches", ProducerScenarios::batches);
        scenarios.put("chunks", ProducerScenarios::chunks);
        scenarios.put("exclusive_producer", ProducerScenarios::exclusive);
        scenarios.put("waiting_producer", ProducerScenarios::waiting);
        scenarios.put("fencing_producer", ProducerScenarios::fencing);
        scenarios.put("partitions", ProducerScenarios::partitions);
        scenarios.put("added_partitions", ProducerScenarios::addedPartitions);
        scenarios.put("deduplication", ProducerScenarios::deduplication);
        scenarios.put("unloaded_topic", ProducerScenarios::unloadedTopic);
        scenarios.put("initial_subscription", ProducerScenarios::initialSubscription);
    }

    private static void defaultProducer(World world) throws Exception {
        String topic = world.topic("default");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        Producer<byte[]> producer = world.keep(world.producing(topic).create());
        MessageId sent = producer.send(World.bytes("hello"));
        Message<byte[]> message = World.receive(consumer);
        World.same("hello", new String(message.getData()));
        World.same(sent, message.getMessageId());
        consumer.acknowledge(message);
    }

    private static void batches(World world) throws Exception {
        String topic = world.topic("batches");
        List<MessageId> sent = world.sendBatch(topic, 100);
        Set<Long> entries = new HashSet<>();
        for (MessageId each : sent) {
            entries.add(((MessageIdAdv) each).getEntryId());
        }
        World.same(1, entries.size());
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        List<Message<byte[]>> messages = World.receive(consumer, 100);
        World.same(World.numbers(0, 100), World.texts(messages));
        for (int at = 0; at < 100; at++) {
            World.same(sent.get(at), messages.get(at).getMessageId());
        }
    }

    private static void chunks(World world) throws Exception {
        String topic = world.topic("chunks");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        Producer<byte[]> producer = world.keep(
            world.producing(topic).enableBatching(false).enableChunking(true).create());
        byte[] large = new byte[12 * 1024 * 1024];
        for (int at = 0; at < large.length; at++) {
            large[at] = (byte) (at * 31);
        }
        MessageId sent = producer.send(large);
        Message<byte[]> message = World.receive(consumer);
        World.check(java.util.Arrays.equals(large, message.getData()), "other bytes came");
        World.same(sent, message.getMessageId());
    }

    private static void exclusive(World world) throws Exception {
        String topic = world.topic("exclusive");
        Producer<byte[]> first =
            world.producing(topic).accessMode(Exclusive).create();
        World.refused(PulsarClientException.ProducerFencedException.class, "",
            () -> world.producing(topic).accessMode(Exclusive).create());
        World.refused(PulsarClientException.ProducerBusyException.class, "",
            () -> world.producing(topic).create());
        first.send(World.bytes("alone"));
        first.close();
        world.keep(world.producing(topic).accessMode(Exclusive).create());
    }

    private static void waiting(World world) throws Exception {
        String topic = world.topic("waiting");
        Producer<byte[]> first = world.producing(topic).create();
        CompletableFuture<Producer<byte[]>> second =
            world.producing(topic).accessMode(WaitForExclusive).createAsync();
        first.send(World.bytes("before"));
        World.check(!second.isDone(), "the second producer did not wait");
        first.close();
        Producer<byte[]> waited = world.keep(second.get(World.SOON_S, TimeUnit.SECONDS));
        waited.send(World.bytes("after"));
    }

    private static void fencing(World world) throws Exception {
        String topic = world.topic("fencing");
        Producer<byte[]> first = world.keep(world.producing(topic).accessMode(Exclusive).create());
        Producer<byte[]> second =
            world.keep(world.producing(topic).accessMode(ExclusiveWithFencing).create());
        second.send(World.bytes("taken"));
        World.refused(PulsarClientException.class, "", () -> first.send(World.bytes("late")));
    }

    private static void partitions(World world) throws Exception {
        String topic = world.partitioned("partitions", 3);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        Producer<byte[]> producer = world.keep(world.producing(topic).enableBatching(false)
            .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create());
        Set<MessageId> sent = new TreeSet<>(World.sendAll(producer, 0, 30));
        Set<MessageId> received = new TreeSet<>();
        Set<String> from = new HashSet<>();
        for (Message<byte[]> each : World.receive(consumer, 30)) {
            received.add(each.getMessageId());
            from.add(each.getTopicName());
            consumer.acknowledge(each);
        }
        World.same(sent, received);
        World.same(Set.of(topic + "-partition-0", topic + "-partition-1", topic + "-partition-2"),
            from);
        Set<String> ofKey = new HashSet<>();
        for (int number = 0; number < 10; number++) {
            producer.newMessage().key("one").value(World.bytes("x")).send();
            ofKey.add(World.receive(consumer).getTopicName());
        }
        World.same(1, ofKey.size());
    }

    private static void addedPartitions(World world) throws Exception {
        String topic = world.partitioned("grows", 1);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic)
            .autoUpdatePartitionsInterval(1, TimeUnit.SECONDS).subscribe());
        Producer<byte[]> producer = world.keep(world.producing(topic).enableBatching(false)
            .messageRoutingMode(MessageRoutingMode.RoundRobinPartition)
            .autoUpdatePartitionsInterval(1, TimeUnit.SECONDS).create());
        producer.send(World.bytes("first"));
        World.same(topic + "-partition-0", World.receive(consumer).getTopicName());
        world.grow("grows", 3);
        Set<String> from = new HashSet<>();
        World.until("messages from three partitions", () -> {
            producer.send(World.bytes("x"));
            from.add(World.receive(consumer).getTopicName());
            return from.size() == 3;
        });
    }

    private static void deduplication(World world) throws Exception {
        String namespace = "public/" + world.prefix + "dedup";
        world.http("PUT", "/admin/v2/namespaces/" + namespace, "");
        world.http("POST", "/admin/v2/namespaces/" + namespace + "/deduplication", "true");
        String topic = "persistent://" + namespace + "/t";
        Producer<byte[]> producer = world.producing(topic).producerName("mine")
            .sendTimeout(0, TimeUnit.SECONDS).enableBatching(false).create();
        for (int number : new int[] {0, 1, 1, 0, 2}) {
            producer.newMessage().sequenceId(number).value(World.bytes("" + number)).send();
        }
        producer.close();
        producer = world.keep(world.producing(topic).producerName("mine")
            .sendTimeout(0, TimeUnit.SECONDS).create());
        World.same(2L, producer.getLastSequenceId());
        producer.newMessage().sequenceId(2).value(World.bytes("2")).send();
        producer.newMessage().sequenceId(3).value(World.bytes("3")).send();
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        World.same(World.numbers(0, 4), World.texts(World.receive(consumer, 4)));
        World.same(List.of(), World.texts(World.rest(consumer)));
    }

    private static void unloadedTopic(World world) throws Exception {
        String topic = world.topic("unloaded");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        Producer<byte[]> producer = world.keep(world.producing(topic).create());
        List<CompletableFuture<MessageId>> sends = new ArrayList<>();
        for (int number = 0; number < 300; number++) {
            sends.add(producer.sendAsync(World.bytes("" + number)));
            if (number % 100 == 50) {
                world.unload("unloaded");
            }
        }
        for (CompletableFuture<MessageId> each : sends) {
            each.get(World.SOON_S, TimeUnit.SECONDS);
        }
        Set<String> received = new HashSet<>();
        while (received.size() < 300) {
            received.addAll(World.texts(World.receive(consumer, 1)));
        }
        World.same(new HashSet<>(World.numbers(0, 300)), received);
    }

    private static void initialSubscription(World world) throws Exception {
        String topic = world.topic("initial");
        Producer<byte[]> producer = world.keep(
            ((org.apache.pulsar.client.impl.ProducerBuilderImpl<byte[]>) world.producing(topic))
                .initialSubscriptionName("sub").create());
        producer.send(World.bytes("early"));
        Consumer<byte[]> consumer = world.keep(
            world.client.newConsumer().topic(topic).subscriptionName("sub").subscribe());
        World.same(List.of("early"), World.texts(World.receive(consumer, 1)));
    }
}
