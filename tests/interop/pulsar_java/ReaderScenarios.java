import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.TableView;

/** Seeks, readers and table views. */
final class ReaderScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("seek_to_message", ReaderScenarios::seekToMessage);
        scenarios.put("seek_into_batch", ReaderScenarios::seekIntoBatch);
        scenarios.put("seek_to_time", ReaderScenarios::seekToTime);
        scenarios.put("seek_over_partitions", ReaderScenarios::seekOverPartitions);
        scenarios.put("reader", ReaderScenarios::reader);
        scenarios.put("reader_within_batch", ReaderScenarios::readerWithinBatch);
        scenarios.put("reader_from_latest", ReaderScenarios::readerFromLatest);
        scenarios.put("reader_over_partitions", ReaderScenarios::readerOverPartitions);
        scenarios.put("last_message", ReaderScenarios::lastMessage);
        scenarios.put("table_view", ReaderScenarios::tableView);
    }

    private static List<String> read(Reader<byte[]> reader) throws Exception {
        List<String> texts = new ArrayList<>();
        while (reader.hasMessageAvailable()) {
            Message<byte[]> message = reader.readNext(World.SOON_S, TimeUnit.SECONDS);
            World.check(message != null, "a message is there and does not come");
            texts.add(new String(message.getData()));
        }
        return texts;
    }

    private static ReaderBuilder<byte[]> reading(World world, String topic) {
        return world.client.newReader().topic(topic);
    }

    private static void seekToMessage(World world) throws Exception {
        String topic = world.topic("seek");
        List<MessageId> ids = world.send(topic, 10);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        World.receive(consumer, 10);
        consumer.seek(ids.get(4));
        World.same(World.numbers(5, 10), World.texts(World.receive(consumer, 5)));
        consumer.seek(MessageId.earliest);
        World.same(World.numbers(0, 10), World.texts(World.receive(consumer, 10)));
        consumer.seek(MessageId.latest);
        World.same(List.of(), World.texts(World.rest(consumer)));
        Consumer<byte[]> inclusive = world.keep(world.client.newConsumer().topic(topic)
            .subscriptionName("inclusive").startMessageIdInclusive().subscribe());
        inclusive.seek(ids.get(4));
        World.same(World.numbers(4, 10), World.texts(World.receive(inclusive, 6)));
    }

    private static void seekIntoBatch(World world) throws Exception {
        String topic = world.topic("seekbatch");
        List<MessageId> ids = world.sendBatch(topic, 10);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        World.receive(consumer, 10);
        consumer.seek(ids.get(6));
        World.same(World.numbers(7, 10), World.texts(World.receive(consumer, 3)));
    }

    private static void seekToTime(World world) throws Exception {
        String topic = world.topic("seektime");
        world.send(topic, 5);
        Thread.sleep(20);
        long between = System.currentTimeMillis();
        Thread.sleep(20);
        world.send(topic, 3);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        World.receive(consumer, 8);
        consumer.seek(between);
        World.same(World.numbers(0, 3), World.texts(World.receive(consumer, 3)));
        World.same(List.of(), World.texts(World.rest(consumer)));
    }

    private static void seekOverPartitions(World world) throws Exception {
        String topic = world.partitioned("seekparts", 3);
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        world.send(topic, 12);
        for (Message<byte[]> each : World.receive(consumer, 12)) {
            consumer.acknowledge(each);
        }
        consumer.seek(MessageId.earliest);
        World.same(12, World.receive(consumer, 12).size());
    }

    private static void reader(World world) throws Exception {
        String topic = world.topic("reader");
        List<MessageId> ids = world.send(topic, 10);
        World.same(World.numbers(0, 10),
            read(world.keep(reading(world, topic).startMessageId(MessageId.earliest).create())));
        World.same(World.numbers(5, 10),
            read(world.keep(reading(world, topic).startMessageId(ids.get(4)).create())));
        Reader<byte[]> inclusive = world.keep(reading(world, topic).startMessageId(ids.get(4))
            .startMessageIdInclusive().create());
        World.same(World.numbers(4, 10), read(inclusive));
        inclusive.seek(ids.get(7));
        World.same(World.numbers(7, 10), read(inclusive));
        world.send(topic, 2);
        World.same(World.numbers(0, 2), read(inclusive));
        World.same(12, read(world.keep(reading(world, topic)
            .startMessageFromRollbackDuration(1, TimeUnit.HOURS).create())).size());
    }

    private static void readerWithinBatch(World world) throws Exception {
        String topic = world.topic("readbatch");
        List<MessageId> ids = world.sendBatch(topic, 10);
        World.same(World.numbers(4, 10),
            read(world.keep(reading(world, topic).startMessageId(ids.get(3)).create())));
    }

    private static void readerFromLatest(World world) throws Exception {
        String topic = world.topic("readlatest");
        world.send(topic, 3);
        Reader<byte[]> reader =
            world.keep(reading(world, topic).startMessageId(MessageId.latest).create());
        World.check(!reader.hasMessageAvailable(), "there is nothing behind the latest");
        world.send(topic, 2);
        World.same(World.numbers(0, 2), read(reader));
        Reader<byte[]> last = world.keep(reading(world, topic).startMessageId(MessageId.latest)
            .startMessageIdInclusive().create());
        World.same(List.of("1"), read(last));
    }

    private static void readerOverPartitions(World world) throws Exception {
        String topic = world.partitioned("readparts", 3);
        world.send(topic, 12);
        World.same(12,
            read(world.keep(reading(world, topic).startMessageId(MessageId.earliest).create())).size());
    }

    private static void lastMessage(World world) throws Exception {
        String topic = world.topic("last");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        List<MessageId> ids = world.send(topic, 3);
        World.check(consumer.getLastMessageIds().get(0).compareTo(ids.get(2)) == 0, "another id");
        ids = world.sendBatch(topic, 5);
        World.check(consumer.getLastMessageIds().get(0).compareTo(ids.get(4)) == 0, "another id");
    }

    private static void tableView(World world) throws Exception {
        String topic = world.partitioned("table", 2);
        Producer<String> producer = world.keep(
            world.client.newProducer(Schema.STRING).topic(topic).create());
        for (int number = 0; number < 20; number++) {
            producer.newMessage().key("key-" + number % 5).value("" + number).send();
        }
        TableView<String> view = world.keep(
            world.client.newTableViewBuilder(Schema.STRING).topic(topic).create());
        Map<String, String> expected = new TreeMap<>();
        for (int number = 15; number < 20; number++) {
            expected.put("key-" + number % 5, "" + number);
        }
        World.same(expected, new TreeMap<>(Map.copyOf(entries(view))));
        producer.newMessage().key("key-0").value("new").send();
        World.until("the view follows", () -> "new".equals(view.get("key-0")));
    }

    private static Map<String, String> entries(TableView<String> view) {
        Map<String, String> entries = new TreeMap<>();
        view.forEach(entries::put);
        return entries;
    }
}
