import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerCryptoFailureAction;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.SubscriptionType;

/** Contents and properties of messages. */
final class MessageScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("compressed_lz4", world -> compressed(world, CompressionType.LZ4));
        scenarios.put("compressed_zlib", world -> compressed(world, CompressionType.ZLIB));
        scenarios.put("compressed_zstd", world -> compressed(world, CompressionType.ZSTD));
        scenarios.put("compressed_snappy", world -> compressed(world, CompressionType.SNAPPY));
        scenarios.put("metadata", MessageScenarios::metadata);
        scenarios.put("delayed", MessageScenarios::delayed);
        scenarios.put("encrypted", MessageScenarios::encrypted);
        scenarios.put("no_value", MessageScenarios::noValue);
    }

    private static void compressed(World world, CompressionType codec) throws Exception {
        String topic = world.topic("compressed");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        for (boolean batching : new boolean[] {true, false}) {
            Producer<byte[]> producer = world.keep(world.producing(topic)
                .compressionType(codec).enableBatching(batching).create());
            World.sendAll(producer, 0, 50);
            producer.send(new byte[1024 * 1024]);
            World.same(World.numbers(0, 50), World.texts(World.receive(consumer, 50)));
            World.same(1024 * 1024, World.receive(consumer).getData().length);
        }
    }

    private static void metadata(World world) throws Exception {
        String topic = world.topic("metadata");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        for (boolean batching : new boolean[] {true, false}) {
            Producer<byte[]> producer = world.keep(world.producing(topic)
                .enableBatching(batching).property("team", "blue").create());
            producer.newMessage().keyBytes(new byte[] {0, (byte) 0xff}).orderingKey(new byte[] {7})
                .property("colour", "green").eventTime(12345).value(World.bytes("x")).send();
            Message<byte[]> message = World.receive(consumer);
            World.check(message.hasBase64EncodedKey(), "the key is text");
            World.same((byte) 0xff, message.getKeyBytes()[1]);
            World.same((byte) 7, message.getOrderingKey()[0]);
            World.same(Map.of("colour", "green"), message.getProperties());
            World.same(12345L, message.getEventTime());
            World.same(producer.getProducerName(), message.getProducerName());
        }
    }

    private static void delayed(World world) throws Exception {
        String topic = world.topic("delayed");
        Consumer<byte[]> consumer = world.keep(
            world.consuming(topic).subscriptionType(SubscriptionType.Shared).subscribe());
        Producer<byte[]> producer = world.keep(world.producing(topic).create());
        producer.newMessage().deliverAfter(1, TimeUnit.SECONDS).value(World.bytes("late")).send();
        producer.send(World.bytes("early"));
        World.same(List.of("early", "late"), World.texts(World.receive(consumer, 2)));
    }

    private static void encrypted(World world) throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        Keys keys = new Keys(generator.generateKeyPair());
        String topic = world.topic("encrypted");
        Consumer<byte[]> consumer =
            world.keep(world.consuming(topic).cryptoKeyReader(keys).subscribe());
        Consumer<byte[]> stranger = world.keep(world.client.newConsumer().topic(topic)
            .subscriptionName("stranger").cryptoFailureAction(ConsumerCryptoFailureAction.CONSUME)
            .subscribe());
        for (boolean batching : new boolean[] {true, false}) {
            Producer<byte[]> producer = world.keep(world.producing(topic).enableBatching(batching)
                .addEncryptionKey("mine").cryptoKeyReader(keys).create());
            producer.send(World.bytes("secret"));
            World.same(List.of("secret"), World.texts(World.receive(consumer, 1)));
            String seen = World.texts(World.receive(stranger, 1)).get(0);
            World.check(!seen.contains("secret"), "a stranger can read it");
        }
    }

    private static final class Keys implements CryptoKeyReader {
        private final KeyPair pair;

        Keys(KeyPair pair) {
            this.pair = pair;
        }

        @Override
        public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
            return new EncryptionKeyInfo(pem("PUBLIC KEY", pair.getPublic().getEncoded()), metadata);
        }

        @Override
        public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
            return new EncryptionKeyInfo(pem("PRIVATE KEY", pair.getPrivate().getEncoded()), metadata);
        }

        private static byte[] pem(String kind, byte[] encoded) {
            String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(encoded);
            return World.bytes("-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind
                + "-----\n");
        }
    }

    private static void noValue(World world) throws Exception {
        String topic = world.topic("novalue");
        Consumer<byte[]> consumer = world.keep(world.consuming(topic).subscribe());
        Producer<byte[]> producer = world.keep(world.producing(topic).create());
        producer.newMessage().key("gone").value(null).send();
        World.check(World.receive(consumer).getValue() == null, "a message without a value has one");
    }
}
