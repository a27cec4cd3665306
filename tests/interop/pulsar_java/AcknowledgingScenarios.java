import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatchReceivePolicy;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Messages;
import org.apache.pulsar.client.api.SubscriptionType;

/** Acknowledgements, and redelivery of unacknowledged messages. */
final class AcknowledgingScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("acknowledged_singly", AcknowledgingScenarios::singly);
        scenarios.put("acknowledged_cumulatively", AcknowledgingScenarios::cumulatively);
        scenarios.put("acknowledged_with_receipts", AcknowledgingScenarios::withReceipts);
        scenarios.put("acknowledged_in_batches", AcknowledgingScenarios::batchIndexes);
        scenarios.put("negative_acknowledgement", AcknowledgingScenarios::negative);
        scenarios.put("acknowledgement_timeout", AcknowledgingScenarios::timeout);
        scenarios.put("redelivery", AcknowledgingScenarios::redelivery);
        scenarios.put("batch_receive", AcknowledgingScenarios::batchReceive);
        scenarios.put("dead_letters", AcknowledgingScenarios::deadLetters);
        scenarios.put("retry_letters", AcknowledgingScenarios::retryLetters);
    }

    private static ConsumerBuilder<byte[]> shared(World world, String topic) {
        return world.consuming(topic).subscriptionType(SubscriptionType.Shared);
    }

    private static void singly(World world) throws Exception {
        String topic = world.topic("singly");
        world.send(topic, 5);
        Consumer<byte[]> consumer = world.consuming(topic).subscribe();
        List<Message<byte[]>> messages = World.receive(consumer, 5);
        consumer.acknowledge(messages.get(1));
        consumer.acknowledge(List.of(messages.get(3).getMessageId()));
        consumer.close();
        Consumer<byte[]> again = world.keep(world.consuming(topic).subscribe());
        World.same(List.of("0", "2", "4"), World.texts(World.receive(again, 3)));
    }

    private static void cumulatively(World world) throws Exception {
        String topic = world.topic("cumulatively");
        world.send(topic, 5);
        world.sendBatch(topic, 5);
        Consumer<byte[]> consumer = world.consuming(topic).subscribe();
        List<Message<byte[]>> messages = World.receive(consumer, 10);
        consumer.acknowledgeCumulative(messages.get(3));
        consumer.close();
        consumer = world.consuming(topic).subscribe();
        World.same(List.of("4", "0", "1", "2", "3", "4"), World.texts(World.receive(consumer, 6)));
        consumer.acknowledgeCumulative(messages.get(9));
        consumer.close();
        Consumer<byte[]> again = world.keep(world.consuming(topic).subscribe());
        World.same(List.of(), World.texts(World.rest(again)));
    }

    private static void withReceipts(World world) throws Exception {
        String topic = world.topic("receipts");
        world.send(topic, 5);
        Consumer<byte[]> consumer = world.consuming(topic).isAckReceiptEnabled(true).subscribe();
        List<Message<byte[]>> messages = World.receive(consumer, 5);
        consumer.acknowledgeAsync(messages.get(0)).get(World.SOON_S, TimeUnit.SECONDS);
        consumer.acknowledgeCumulativeAsync(messages.get(2)).get(World.SOON_S, TimeUnit.SECONDS);
        consumer.close();
        Consumer<byte[]> again = world.keep(world.consuming(topic).subscribe());
        World.same(List.of("3", "4"), World.texts(World.receive(again, 2)));
    }

    private static void batchIndexes(World world) throws Exception {
        String topic = world.topic("indexes");
        world.sendBatch(topic, 10);
        Consumer<byte[]> consumer =
            shared(world, topic).enableBatchIndexAcknowledgment(true).subscribe();
        List<Message<byte[]>> messages = World.receive(consumer, 10);
        for (int at : new int[] {0, 2, 3, 9}) {
            consumer.acknowledge(messages.get(at));
        }
        consumer.close();
        Consumer<byte[]> again = world.keep(
            shared(world, topic).enableBatchIndexAcknowledgment(true).subscribe());
        List<String> left = List.of("1", "4", "5", "6", "7", "8");
        World.same(left, World.texts(World.receive(again, 6)));
        World.same(List.of(), World.texts(World.rest(again)));
    }

    private static void negative(World world) throws Exception {
        String topic = world.topic("negative");
        world.send(topic, 3);
        Consumer<byte[]> consumer = world.keep(shared(world, topic)
            .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe());
        List<Message<byte[]>> messages = World.receive(consumer, 3);
        consumer.acknowledge(messages.get(0));
        consumer.negativeAcknowledge(messages.get(1));
        consumer.acknowledge(messages.get(2));
        Message<byte[]> again = World.receive(consumer);
        World.same("1", new String(again.getData()));
        World.same(1, again.getRedeliveryCount());
    }

    private static void timeout(World world) throws Exception {
        String topic = world.topic("timeout");
        world.send(topic, 2);
        Consumer<byte[]> consumer = world.keep(shared(world, topic)
            .ackTimeout(1, TimeUnit.SECONDS).ackTimeoutTickTime(200, TimeUnit.MILLISECONDS)
            .subscribe());
        consumer.acknowledge(World.receive(consumer));
        World.receive(consumer);
        World.same("1", new String(World.receive(consumer).getData()));
    }

    private static void redelivery(World world) throws Exception {
        String topic = world.topic("redelivery");
        world.send(topic, 5);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        List<Message<byte[]>> messages = World.receive(consumer, 5);
        consumer.acknowledge(messages.get(0));
        consumer.redeliverUnacknowledgedMessages();
        World.same(List.of("1", "2", "3", "4"), World.texts(World.receive(consumer, 4)));
    }

    private static void batchReceive(World world) throws Exception {
        String topic = world.topic("batchreceive");
        world.send(topic, 25);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic)
            .batchReceivePolicy(BatchReceivePolicy.builder().maxNumMessages(10)
                .timeout(500, TimeUnit.MILLISECONDS).build()).subscribe());
        List<String> all = new ArrayList<>();
        while (all.size() < 25) {
            Messages<byte[]> messages = consumer.batchReceive();
            World.check(messages.size() <= 10, "more than was asked for");
            messages.forEach(each -> all.add(new String(each.getData())));
            consumer.acknowledge(messages);
        }
        World.same(World.numbers(0, 25), all);
    }

    private static void deadLetters(World world) throws Exception {
        String topic = world.topic("letters");
        Consumer<byte[]> dead = world.keep(world.client.newConsumer()
            .topic(topic + "-sub-DLQ").subscriptionName("dead").subscribe());
        world.send(topic, 3);
        Consumer<byte[]> consumer = world.keep(shared(world, topic)
            .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS)
            .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2)
                .initialSubscriptionName("kept").build()).subscribe());
        int deliveries = 0;
        while (dead.receive(0, TimeUnit.MILLISECONDS) == null) {
            World.check(deliveries < 100, "no end of deliveries");
            Message<byte[]> message = consumer.receive(100, TimeUnit.MILLISECONDS);
            if (message == null) {
                continue;
            }
            deliveries++;
            if (new String(message.getData()).equals("1")) {
                consumer.negativeAcknowledge(message);
            } else {
                consumer.acknowledge(message);
            }
        }
        World.same(5, deliveries);
        Consumer<byte[]> kept = world.keep(world.client.newConsumer()
            .topic(topic + "-sub-DLQ").subscriptionName("kept").subscribe());
        World.same(List.of("1"), World.texts(World.receive(kept, 1)));
    }

    private static void retryLetters(World world) throws Exception {
        String topic = world.topic("retry");
        world.send(topic, 1);
        Consumer<byte[]> consumer = world.keep(shared(world, topic).enableRetry(true)
            .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).build()).subscribe());
        Consumer<byte[]> dead = world.keep(world.consuming(topic + "-sub-DLQ").subscribe());
        for (int count = 0; count < 3; count++) {
            Message<byte[]> message = World.receive(consumer);
            World.same("0", new String(message.getData()));
            World.same(count == 0, message.getTopicName().equals(topic));
            consumer.reconsumeLater(message, 100, TimeUnit.MILLISECONDS);
        }
        World.same(List.of("0"), World.texts(World.receive(dead, 1)));
    }
}
