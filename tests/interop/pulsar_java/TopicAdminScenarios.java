import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.PulsarAdminException.ConflictException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotAllowedException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotFoundException;
import org.apache.pulsar.client.admin.PulsarAdminException.PreconditionFailedException;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.common.policies.data.PartitionedTopicStats;
import org.apache.pulsar.common.policies.data.PersistentTopicInternalStats;
import org.apache.pulsar.common.policies.data.SubscriptionStats;
import org.apache.pulsar.common.policies.data.TopicStats;

/** An administrator's requests about one topic and its subscriptions. */
class TopicAdminScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("admin_reads_messages", TopicAdminScenarios::readsMessages);
        scenarios.put("admin_moves_subscriptions", TopicAdminScenarios::movesSubscriptions);
        scenarios.put("admin_sees_statistics", TopicAdminScenarios::seesStatistics);
        scenarios.put("admin_terminates_topics", TopicAdminScenarios::terminatesTopics);
        scenarios.put("admin_reaches_all_partitions", TopicAdminScenarios::reachesAllPartitions);
    }

    private static void readsMessages(World world) throws Exception {
        Topics topics = world.admin().topics();
        String topic = world.topic("t");
        try (Producer<byte[]> producer = world.producing(topic).producerName("p")
                .enableBatching(false).create()) {
            producer.newMessage().key("k").property("a", "gr\u00fcn \u65e5\u672c").property("B-c d:e", "x\ny")
                .eventTime(1_700_000_000_123L).value(World.bytes("first")).send();
        }
        try (Producer<byte[]> producer = world.producing(topic).enableBatching(true)
                .compressionType(CompressionType.LZ4).batchingMaxMessages(3)
                .batchingMaxPublishDelay(10, TimeUnit.SECONDS).create()) {
            World.sendAll(producer, 0, 3);
        }
        topics.createSubscription(topic, "s", MessageId.earliest);
        List<Message<byte[]>> peeked = topics.peekMessages(topic, "s", 10);
        World.same(List.of("first", "0", "1", "2"), World.texts(peeked));
        World.same(List.of("first", "0"), World.texts(topics.peekMessages(topic, "s", 2)));
        Message<byte[]> first = peeked.get(0);
        World.same("gr\u00fcn \u65e5\u672c", first.getProperty("a"));
        World.same("x\ny", first.getProperty("B-c d:e"));
        World.same("k", first.getKey());
        World.same(1_700_000_000_123L, first.getEventTime());
        World.same("p", first.getProducerName());
        MessageIdImpl id = (MessageIdImpl) first.getMessageId();
        Message<byte[]> again = topics.getMessageById(topic, id.getLedgerId(), id.getEntryId());
        World.same("first", new String(again.getData(), StandardCharsets.UTF_8));
        World.refused(NotFoundException.class, "",
            () -> topics.getMessageById(topic, id.getLedgerId(), 77));
        World.same("first", text(topics.examineMessage(topic, "earliest", 1)));
        World.same("first", text(topics.examineMessage(topic, "latest", 2)));
        World.same("0", text(topics.examineMessage(topic, "latest", 1)));
        World.refused(NotFoundException.class, "", () -> topics.examineMessage(topic, "latest", 9));
        BatchMessageIdImpl last = (BatchMessageIdImpl) topics.getLastMessageId(topic);
        World.same(List.of(1L, 2), List.of(last.getEntryId(), last.getBatchIndex()));
        MessageIdImpl found =
            (MessageIdImpl) topics.getMessageIdByTimestamp(topic, first.getPublishTime());
        World.same(0L, found.getEntryId());
        World.refused(PreconditionFailedException.class, "does not exist",
            () -> topics.peekMessages(topic, "none", 1));
    }

    private static void movesSubscriptions(World world) throws Exception {
        Topics topics = world.admin().topics();
        String topic = world.topic("a t+");
        List<MessageId> ids = world.send(topic, 10);
        topics.createSubscription(topic, "s", MessageId.earliest);
        World.refused(ConflictException.class, "",
            () -> topics.createSubscription(topic, "s", MessageId.latest));
        topics.createSubscription(topic, "a new/one+", MessageId.latest);
        topics.createSubscription(topic, "at", ids.get(7), false, Map.of("why", "test"));
        World.same(Map.of("why", "test"), topics.getSubscriptionProperties(topic, "at"));
        World.same(List.of("7", "8", "9"), peeked(topics, topic, "at"));
        World.same(List.of(), peeked(topics, topic, "a new/one+"));
        topics.skipMessages(topic, "s", 3);
        World.same("3", peeked(topics, topic, "s").get(0));
        topics.resetCursor(topic, "s", ids.get(5));
        World.same("5", peeked(topics, topic, "s").get(0));
        topics.resetCursor(topic, "s", ids.get(5), true);
        World.same("6", peeked(topics, topic, "s").get(0));
        topics.resetCursor(topic, "s", 1L);
        World.same(10, peeked(topics, topic, "s").size());
        topics.expireMessages(topic, "s", ids.get(1), false);
        World.same("2", peeked(topics, topic, "s").get(0));
        topics.expireMessages(topic, "s", 3600);
        World.same(8, peeked(topics, topic, "s").size());
        Thread.sleep(1100);
        topics.expireMessagesForAllSubscriptions(topic, 1);
        World.same(List.of(), peeked(topics, topic, "s"));
        World.refused(ConflictException.class, "", () -> topics.expireMessages(topic, "s", 1));
        topics.resetCursor(topic, "s", MessageId.earliest);
        topics.skipAllMessages(topic, "s");
        World.same(List.of(), peeked(topics, topic, "s"));
        try (Consumer<byte[]> consumer = world.consuming(topic).subscriptionName("s").subscribe()) {
            topics.resetCursor(topic, "s", ids.get(8));
            World.same(List.of("8", "9"), World.texts(World.receive(consumer, 2)));
            World.refused(PreconditionFailedException.class, "",
                () -> topics.deleteSubscription(topic, "s"));
            World.refused(PreconditionFailedException.class, "", () -> topics.delete(topic));
        }
        topics.deleteSubscription(topic, "s");
        World.same(List.of("a new/one+", "at"), List.copyOf(new TreeSet<>(topics.getSubscriptions(topic))));
        World.refused(NotFoundException.class, "", () -> topics.skipAllMessages(topic, "s"));
        skipsForAConnectedConsumer(world, topics);
    }

    /** Checks that the consumer receives none of the skipped messages and all later ones. */
    private static void skipsForAConnectedConsumer(World world, Topics topics) throws Exception {
        String topic = world.topic("shared");
        try (Consumer<byte[]> consumer = world.consuming(topic).receiverQueueSize(2)
                .subscriptionType(SubscriptionType.Shared).subscribe()) {
            world.send(topic, 20);
            World.same("0", World.texts(World.receive(consumer, 1)).get(0));
            topics.skipAllMessages(topic, "sub");
            World.rest(consumer);
            world.send(topic, 1);
            World.same(List.of("0"), World.texts(World.receive(consumer, 1)));
        }
    }

    private static void seesStatistics(World world) throws Exception {
        Topics topics = world.admin().topics();
        String topic = world.topic("t");
        Consumer<byte[]> consumer =
            world.keep(world.consuming(topic).consumerName("c").subscribe());
        Producer<byte[]> producer =
            world.keep(world.producing(topic).producerName("p").enableBatching(false).create());
        World.sendAll(producer, 0, 5);
        consumer.acknowledge(World.receive(consumer, 5).get(0));
        World.until("the acknowledgement is there", () ->
            topics.getStats(topic).getSubscriptions().get("sub").getMsgBacklog() == 4);
        TopicStats stats = topics.getStats(topic, true, true, true);
        SubscriptionStats sub = stats.getSubscriptions().get("sub");
        World.same(List.of(5L, 5L), List.of(stats.getMsgInCounter(), sub.getMsgOutCounter()));
        World.same("p", stats.getPublishers().get(0).getProducerName());
        World.same("c", sub.getConsumers().get(0).getConsumerName());
        World.same("Exclusive", sub.getType());
        World.same(true, sub.isDurable());
        World.check(stats.getStorageSize() == stats.getBytesInCounter(), "all is stored");
        World.check(stats.getEarliestMsgPublishTimeInBacklogs() > 0, "a time");
        World.check(0 < sub.getBacklogSize() && sub.getBacklogSize() < stats.getStorageSize(),
            "what is left of it");
        PersistentTopicInternalStats internal = topics.getInternalStats(topic);
        World.same(List.of(5L, 5L, stats.getStorageSize()),
            List.of(internal.entriesAddedCounter, internal.numberOfEntries, internal.totalSize));
        World.same(List.of(5L, stats.getStorageSize()),
            List.of(internal.currentLedgerEntries, internal.currentLedgerSize));
        World.same("LedgerOpened", internal.state);
        World.same(1, internal.ledgers.size());
        World.same(internal.ledgers.get(0).ledgerId + ":0",
            internal.cursors.get("sub").markDeletePosition);
        World.refused(NotFoundException.class, "", () -> topics.getStats(world.topic("none")));
        World.refused(NotFoundException.class, "", () -> topics.getPartitionedStats(topic, true));
    }

    private static void terminatesTopics(World world) throws Exception {
        Topics topics = world.admin().topics();
        String topic = world.topic("t");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        Producer<byte[]> producer = world.keep(
            world.producing(topic).enableBatching(false).create());
        MessageId last = World.sendAll(producer, 0, 3).get(2);
        MessageId terminated = topics.terminateTopic(topic);
        World.same(last, terminated);
        World.same(last, topics.terminateTopic(topic));
        World.refused(PulsarClientException.TopicTerminatedException.class, "",
            () -> producer.send(World.bytes("x")));
        World.check(!consumer.hasReachedEndOfTopic(), "messages are left");
        for (Message<byte[]> each : World.receive(consumer, 3)) {
            consumer.acknowledge(each);
        }
        World.until("the consumer is told", consumer::hasReachedEndOfTopic);
        world.unload("t");
        World.refused(PulsarClientException.TopicTerminatedException.class, "",
            () -> world.producing(topic).create());
        World.same("Terminated", topics.getInternalStats(topic).state);
        try (Reader<byte[]> reader = world.client.newReader().topic(topic)
                .startMessageId(MessageId.earliest).create()) {
            for (int number = 0; number < 3; number++) {
                World.same(Integer.toString(number), text(reader.readNext(20, TimeUnit.SECONDS)));
            }
            World.until("the reader is told", reader::hasReachedEndOfTopic);
        }
        try (Consumer<byte[]> late = world.consuming(topic).subscriptionName("late").subscribe()) {
            topics.skipAllMessages(topic, "late");
            World.until("the late one is told", late::hasReachedEndOfTopic);
        }
    }

    private static void reachesAllPartitions(World world) throws Exception {
        PulsarAdmin admin = world.admin();
        Topics topics = admin.topics();
        String topic = world.partitioned("t", 4);
        topics.createSubscription(topic, "s", MessageId.earliest);
        World.refused(ConflictException.class, "",
            () -> topics.createSubscription(topic, "s", MessageId.earliest));
        try (Producer<byte[]> producer = world.producing(topic).enableBatching(false).create()) {
            for (int number = 0; number < 8; number++) {
                producer.send(World.bytes(Integer.toString(number)));
            }
        }
        World.same(List.of("s"), topics.getSubscriptions(topic));
        PartitionedTopicStats stats = topics.getPartitionedStats(topic, true);
        World.same(List.of(4, 4), List.of(stats.getMetadata().partitions, stats.getPartitions().size()));
        World.same(8L, stats.getSubscriptions().get("s").getMsgBacklog());
        World.same(0, topics.getPartitionedStats(topic, false).getPartitions().size());
        World.same(4, topics.getPartitionedInternalStats(topic).partitions.size());
        topics.skipAllMessages(topic, "s");
        World.same(0L, backlog(topics, topic));
        topics.resetCursor(topic, "s", 1L);
        World.same(8L, backlog(topics, topic));
        topics.expireMessages(topic, "s", 3600);
        topics.expireMessagesForAllSubscriptions(topic, 3600);
        World.same(8L, backlog(topics, topic));
        topics.unload(topic);
        World.same(8L, backlog(topics, topic));
        World.refused(NotAllowedException.class, "partition",
            () -> topics.peekMessages(topic, "s", 1));
        World.refused(NotAllowedException.class, "partition", () -> topics.terminateTopic(topic));
        World.refused(NotAllowedException.class, "partition",
            () -> topics.skipMessages(topic, "s", 1));
        topics.deleteSubscription(topic + "-partition-1", "s");
        topics.deleteSubscription(topic, "s");
        World.refused(NotFoundException.class, "", () -> topics.deleteSubscription(topic, "s"));
        World.same(4, topics.terminatePartitionedTopic(topic).size());
        World.refused(PulsarClientException.TopicTerminatedException.class, "",
            () -> world.producing(topic).create());
    }

    private static long backlog(Topics topics, String topic) throws PulsarAdminException {
        return topics.getPartitionedStats(topic, false).getSubscriptions().get("s").getMsgBacklog();
    }

    private static List<String> peeked(Topics topics, String topic, String subscription)
            throws PulsarAdminException {
        return World.texts(topics.peekMessages(topic, subscription, 100));
    }

    private static String text(Message<byte[]> message) {
        return new String(message.getData(), StandardCharsets.UTF_8);
    }
}
