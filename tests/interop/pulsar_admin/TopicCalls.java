import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.common.policies.data.RetentionPolicies;

/** Topics, partitioned topics, subscriptions and messages. */
final class TopicCalls {
    static void make(AdminCalls calls) throws Exception {
        Topics topics = calls.admin.topics();
        String ns = calls.prefix + "t/ns";
        String topic = "persistent://" + ns + "/plain";
        lists(calls, topics, ns, topic);
        unknown(calls, topics, calls.prefix);
        MessageId[] ids = new MessageId[5];
        calls.run("produce 5", () -> {
            try (Producer<byte[]> producer = calls.client.newProducer().topic(topic)
                    .enableBatching(false).create()) {
                for (int number = 0; number < ids.length; number++) {
                    ids[number] = producer.newMessage().property("number", "" + number)
                        .value(("message " + number).getBytes()).send();
                }
            }
        });
        one(calls, topics, topic);
        subscriptions(calls, topics, topic, ids);
        partitioned(calls, topics, "persistent://" + ns + "/parts");
        policies(calls, topics, topic);
        calls.ask("topics.getList of namespace", () -> topics.getList(ns).size());
        calls.run("topics.terminateTopic", () -> topics.terminateTopic(topic));
        calls.run("topics.delete in use", () -> {
            String used = "persistent://" + ns + "/used";
            try (Producer<byte[]> producer = calls.client.newProducer().topic(used).create()) {
                topics.delete(used);
            }
        });
    }

    private static void lists(AdminCalls calls, Topics topics, String ns, String topic) {
        calls.ask("topics.getList empty", () -> topics.getList(ns));
        calls.ask("topics.getPartitionedTopicList empty", () -> topics.getPartitionedTopicList(ns));
        calls.run("topics.createNonPartitionedTopic", () -> topics.createNonPartitionedTopic(topic));
        calls.run("topics.createNonPartitionedTopic again",
            () -> topics.createNonPartitionedTopic(topic));
        calls.ask("topics.getList", () -> topics.getList(ns));
        calls.ask("topics.getList of unknown namespace", () -> topics.getList(ns + "x"));
        calls.ask("topics.getPartitionedTopicList of unknown namespace",
            () -> topics.getPartitionedTopicList(ns + "x"));
    }

    private static void unknown(AdminCalls calls, Topics topics, String prefix) {
        for (String name : new String[] {prefix + "t/none/x", prefix + "none/ns/x"}) {
            String what = name.substring(prefix.length());
            String topic = "persistent://" + name;
            calls.run("topics.createNonPartitionedTopic " + what,
                () -> topics.createNonPartitionedTopic(topic));
            calls.run("topics.createPartitionedTopic " + what,
                () -> topics.createPartitionedTopic(topic, 2));
            calls.ask("topics.getPartitionedTopicMetadata " + what,
                () -> topics.getPartitionedTopicMetadata(topic));
            calls.ask("topics.getStats " + what, () -> topics.getStats(topic));
            calls.run("topics.delete " + what, () -> topics.delete(topic));
            calls.ask("lookups.lookupTopic " + what,
                () -> calls.admin.lookups().lookupTopic(topic) != null);
            calls.run("produce " + what, () -> {
                try (Producer<byte[]> producer = calls.client.newProducer().topic(topic).create()) {
                    producer.send(new byte[1]);
                }
            });
        }
    }

    private static void one(AdminCalls calls, Topics topics, String topic) {
        PulsarAdmin admin = calls.admin;
        calls.ask("lookups.lookupTopic",
            () -> admin.lookups().lookupTopic(topic).startsWith("pulsar://"));
        calls.ask("lookups.getBundleRange",
            () -> admin.lookups().getBundleRange(topic).startsWith("0x"));
        calls.ask("topics.getPartitionedTopicMetadata of a plain topic",
            () -> topics.getPartitionedTopicMetadata(topic).partitions);
        calls.ask("topics.getStats", () -> topics.getStats(topic).getMsgInCounter());
        calls.ask("topics.getInternalStats", () -> {
            var stats = topics.getInternalStats(topic);
            return stats.numberOfEntries + " " + stats.entriesAddedCounter + " "
                + (stats.totalSize > 0);
        });
        calls.ask("topics.getInternalInfo", () -> topics.getInternalInfo(topic) != null);
        calls.ask("topics.getLastMessageId", () -> topics.getLastMessageId(topic) != null);
        calls.ask("topics.getMessageIdByTimestamp",
            () -> topics.getMessageIdByTimestamp(topic, 1) != null);
        calls.ask("topics.examineMessage earliest",
            () -> topics.examineMessage(topic, "earliest", 1));
        calls.ask("topics.examineMessage latest", () -> topics.examineMessage(topic, "latest", 1));
        calls.ask("topics.getBacklogSizeByMessageId",
            () -> topics.getBacklogSizeByMessageId(topic, MessageId.earliest) > 0);
        calls.run("topics.compactionStatus", () -> topics.compactionStatus(topic));
        calls.run("topics.offloadStatus", () -> topics.offloadStatus(topic));
        calls.run("topics.trimTopic", () -> topics.trimTopic(topic));
        calls.ask("topics.getProperties", () -> topics.getProperties(topic));
        calls.run("topics.unload", () -> topics.unload(topic));
        calls.ask("topics.getPermissions", () -> topics.getPermissions(topic));
        calls.ask("topics.getStats of unknown topic", () -> topics.getStats(topic + "x"));
        calls.ask("topics.getInternalStats of unknown topic",
            () -> topics.getInternalStats(topic + "x"));
        calls.run("topics.delete unknown topic", () -> topics.delete(topic + "x"));
    }

    private static void subscriptions(AdminCalls calls, Topics topics, String topic,
            MessageId[] ids) {
        calls.run("topics.createSubscription earliest",
            () -> topics.createSubscription(topic, "sub", MessageId.earliest));
        calls.run("topics.createSubscription again",
            () -> topics.createSubscription(topic, "sub", MessageId.earliest));
        calls.run("topics.createSubscription latest",
            () -> topics.createSubscription(topic, "late", MessageId.latest));
        calls.run("topics.createSubscription replicated", () ->
            topics.createSubscription(topic, "far", MessageId.latest, true));
        calls.ask("topics.getSubscriptions", () -> topics.getSubscriptions(topic).size() >= 2);
        calls.ask("topics.peekMessages", () -> topics.peekMessages(topic, "sub", 3));
        calls.ask("topics.getMessageById", () -> {
            var id = (org.apache.pulsar.client.api.MessageIdAdv) ids[1];
            return topics.getMessagesById(topic, id.getLedgerId(), id.getEntryId());
        });
        calls.run("topics.skipMessages", () -> topics.skipMessages(topic, "sub", 2));
        calls.ask("topics.peekMessages after skip", () -> topics.peekMessages(topic, "sub", 1));
        calls.run("topics.skipAllMessages", () -> topics.skipAllMessages(topic, "sub"));
        calls.ask("topics.peekMessages after skip all", () -> topics.peekMessages(topic, "sub", 1));
        calls.run("topics.resetCursor to time", () -> topics.resetCursor(topic, "sub", 1));
        calls.run("topics.resetCursor to id", () -> topics.resetCursor(topic, "sub", ids[3]));
        calls.run("topics.expireMessages", () -> topics.expireMessages(topic, "sub", 1));
        calls.run("topics.expireMessagesForAllSubscriptions",
            () -> topics.expireMessagesForAllSubscriptions(topic, 1000));
        calls.run("topics.updateSubscriptionProperties",
            () -> topics.updateSubscriptionProperties(topic, "sub", Map.of("a", "b")));
        calls.ask("topics.getSubscriptionProperties",
            () -> topics.getSubscriptionProperties(topic, "sub"));
        calls.ask("topics.analyzeSubscriptionBacklog", () -> topics.analyzeSubscriptionBacklog(
            topic, "sub", java.util.Optional.empty()).getMessages());
        calls.run("topics.setReplicatedSubscriptionStatus", () ->
            topics.setReplicatedSubscriptionStatus(topic, "sub", true));
        calls.run("topics.deleteSubscription in use", () -> {
            try (Consumer<byte[]> consumer = calls.client.newConsumer().topic(topic)
                    .subscriptionName("sub").subscribe()) {
                topics.deleteSubscription(topic, "sub");
            }
        });
        calls.run("topics.deleteSubscription", () -> topics.deleteSubscription(topic, "sub"));
        calls.run("topics.deleteSubscription unknown",
            () -> topics.deleteSubscription(topic, "nobody"));
        calls.ask("topics.peekMessages of unknown subscription",
            () -> topics.peekMessages(topic, "nobody", 1));
        calls.run("subscribe with replicated state", () -> calls.client.newConsumer().topic(topic)
            .subscriptionName("everywhere").replicateSubscriptionState(true).subscribe().close());
    }

    private static void partitioned(AdminCalls calls, Topics topics, String topic) {
        calls.run("topics.createPartitionedTopic", () -> topics.createPartitionedTopic(topic, 2));
        calls.run("topics.createPartitionedTopic again",
            () -> topics.createPartitionedTopic(topic, 2));
        calls.run("topics.createPartitionedTopic with 0 partitions",
            () -> topics.createPartitionedTopic(topic + "0", 0));
        calls.run("topics.createMissedPartitions", () -> topics.createMissedPartitions(topic));
        calls.run("produce to partitions", () -> {
            try (Producer<byte[]> producer = calls.client.newProducer().topic(topic).create();
                    Consumer<byte[]> consumer = calls.client.newConsumer().topic(topic)
                        .subscriptionName("sub")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .subscribe()) {
                producer.send("hello".getBytes());
                consumer.acknowledge(consumer.receive(20, TimeUnit.SECONDS));
            }
        });
        calls.ask("topics.getPartitionedTopicMetadata",
            () -> topics.getPartitionedTopicMetadata(topic).partitions);
        calls.run("topics.updatePartitionedTopic", () -> topics.updatePartitionedTopic(topic, 3));
        calls.run("topics.updatePartitionedTopic to fewer",
            () -> topics.updatePartitionedTopic(topic, 1));
        calls.ask("topics.getPartitionedTopicList", () -> topics.getPartitionedTopicList(
            topic.substring("persistent://".length(), topic.lastIndexOf('/'))));
        calls.ask("topics.getPartitionedStats",
            () -> topics.getPartitionedStats(topic, true).getMetadata().partitions);
        calls.ask("topics.getPartitionedInternalStats",
            () -> topics.getPartitionedInternalStats(topic).partitions.size());
        calls.ask("topics.getSubscriptions of a partitioned topic",
            () -> topics.getSubscriptions(topic));
        calls.run("topics.unload a partitioned topic", () -> topics.unload(topic));
        calls.ask("lookups.lookupPartitionedTopic",
            () -> calls.admin.lookups().lookupPartitionedTopic(topic).size());
        calls.run("topics.deleteSubscription of a partitioned topic",
            () -> topics.deleteSubscription(topic, "sub"));
        calls.ask("topics.terminatePartitionedTopic",
            () -> topics.terminatePartitionedTopic(topic).size());
        calls.run("topics.deletePartitionedTopic", () -> topics.deletePartitionedTopic(topic));
        calls.run("topics.deletePartitionedTopic unknown",
            () -> topics.deletePartitionedTopic(topic));
    }

    private static void policies(AdminCalls calls, Topics topics, String topic) {
        var policies = calls.admin.topicPolicies();
        calls.ask("topicPolicies.getRetention", () -> policies.getRetention(topic));
        calls.run("topicPolicies.setRetention",
            () -> policies.setRetention(topic, new RetentionPolicies(10, 10)));
        calls.ask("topicPolicies.getMessageTTL", () -> policies.getMessageTTL(topic));
        calls.run("topicPolicies.setMessageTTL", () -> policies.setMessageTTL(topic, 10));
        calls.run("topicPolicies.setMaxProducers", () -> policies.setMaxProducers(topic, 10));
    }
}
