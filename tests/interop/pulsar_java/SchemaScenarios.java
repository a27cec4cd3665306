import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/** Every kind of schema that needs no compiler of its own. */
final class SchemaScenarios {
    public static class Person {
        public String name;
        public int age;
    }

    public static class PersonWithTown {
        public String name;
        public int age;
        public String town;
    }

    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("primitive_schemas", SchemaScenarios::primitives);
        scenarios.put("record_schemas", SchemaScenarios::records);
        scenarios.put("key_value_schemas", SchemaScenarios::keyValues);
        scenarios.put("any_schema", SchemaScenarios::any);
        scenarios.put("schema_of_one_message", SchemaScenarios::ofOneMessage);
        scenarios.put("schema_that_grows", SchemaScenarios::grows);
        scenarios.put("schema_that_does_not_fit", SchemaScenarios::doesNotFit);
    }

    private static <T> T through(World world, String name, Schema<T> schema, T value)
            throws Exception {
        String topic = world.topic("schema-" + name);
        Consumer<T> consumer = world.keep(world.client.newConsumer(schema).topic(topic)
            .subscriptionName("sub").subscribe());
        Producer<T> producer = world.keep(world.client.newProducer(schema).topic(topic).create());
        producer.send(value);
        return World.receive(consumer).getValue();
    }

    private static void primitives(World world) throws Exception {
        World.same("text", through(world, "string", Schema.STRING, "text"));
        World.same((byte) 7, through(world, "int8", Schema.INT8, (byte) 7));
        World.same((short) 7, through(world, "int16", Schema.INT16, (short) 7));
        World.same(7, through(world, "int32", Schema.INT32, 7));
        World.same(7L, through(world, "int64", Schema.INT64, 7L));
        World.same(1.5f, through(world, "float", Schema.FLOAT, 1.5f));
        World.same(1.5, through(world, "double", Schema.DOUBLE, 1.5));
        World.same(true, through(world, "bool", Schema.BOOL, true));
        World.same(new Date(5), through(world, "date", Schema.DATE, new Date(5)));
        Instant now = Instant.ofEpochSecond(5, 6);
        World.same(now, through(world, "instant", Schema.INSTANT, now));
        LocalDate day = LocalDate.of(2024, 5, 6);
        World.same(day, through(world, "localdate", Schema.LOCAL_DATE, day));
        ByteBuffer buffer = ByteBuffer.wrap(new byte[] {1, 2});
        World.same(buffer, through(world, "buffer", Schema.BYTEBUFFER, buffer.duplicate()));
    }

    private static Person person() {
        Person person = new Person();
        person.name = "Ada";
        person.age = 36;
        return person;
    }

    private static void records(World world) throws Exception {
        World.same("Ada", through(world, "json", Schema.JSON(Person.class), person()).name);
        World.same(36, through(world, "avro", Schema.AVRO(Person.class), person()).age);
    }

    private static void keyValues(World world) throws Exception {
        KeyValue<String, Person> pair = new KeyValue<>("key", person());
        for (KeyValueEncodingType kind : KeyValueEncodingType.values()) {
            Schema<KeyValue<String, Person>> schema =
                Schema.KeyValue(Schema.STRING, Schema.AVRO(Person.class), kind);
            KeyValue<String, Person> back = through(world, "kv-" + kind, schema, pair);
            World.same("key", back.getKey());
            World.same("Ada", back.getValue().name);
        }
    }

    private static void any(World world) throws Exception {
        String topic = world.topic("any");
        Consumer<GenericRecord> early = world.keep(world.client.newConsumer(Schema.AUTO_CONSUME())
            .topic(topic).subscriptionName("early").subscribe());
        Producer<Person> producer = world.keep(
            world.client.newProducer(Schema.AVRO(Person.class)).topic(topic).create());
        producer.send(person());
        World.same("Ada", World.receive(early).getValue().getField("name").toString());
        Producer<byte[]> bytes = world.keep(
            world.client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic(topic).create());
        bytes.send(Schema.AVRO(Person.class).encode(person()));
        World.same(36, World.receive(early).getValue().getField("age"));
    }

    private static void ofOneMessage(World world) throws Exception {
        String topic = world.topic("onemessage");
        Schema<PersonWithTown> larger = optional(PersonWithTown.class);
        Producer<Person> producer = world.keep(
            world.client.newProducer(optional(Person.class)).topic(topic).create());
        Consumer<GenericRecord> consumer = world.keep(world.client
            .newConsumer(Schema.AUTO_CONSUME()).topic(topic).subscriptionName("sub").subscribe());
        producer.send(person());
        PersonWithTown grown = new PersonWithTown();
        grown.name = "Grace";
        grown.town = "New York";
        producer.newMessage(larger).value(grown).send();
        World.same("Ada", World.receive(consumer).getValue().getField("name").toString());
        Message<GenericRecord> second = World.receive(consumer);
        World.same("New York", second.getValue().getField("town").toString());
        World.refused(PulsarClientException.class, "", () ->
            producer.newMessage(Schema.STRING).value("no record").send());
        producer.send(person());
        World.same("Ada", World.receive(consumer).getValue().getField("name").toString());
    }

    private static <T> Schema<T> optional(Class<T> kind) {
        return Schema.AVRO(SchemaDefinition.<T>builder().withPojo(kind)
            .withAlwaysAllowNull(true).build());
    }

    private static void grows(World world) throws Exception {
        String topic = world.topic("grows");
        try (Producer<Person> producer = world.client.newProducer(optional(Person.class))
                .topic(topic).create()) {
            producer.send(person());
        }
        try (Producer<PersonWithTown> producer = world.client
                .newProducer(optional(PersonWithTown.class)).topic(topic).create()) {
            PersonWithTown grown = new PersonWithTown();
            grown.name = "Grace";
            producer.send(grown);
        }
        Consumer<PersonWithTown> consumer = world.keep(world.client
            .newConsumer(optional(PersonWithTown.class)).topic(topic).subscriptionName("sub")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe());
        World.same("Ada", World.receive(consumer).getValue().name);
        World.same("Grace", World.receive(consumer).getValue().name);
        World.same(List.of(), World.rest(consumer));
    }

    private static void doesNotFit(World world) throws Exception {
        String topic = world.topic("misfit");
        world.keep(world.client.newProducer(Schema.AVRO(Person.class)).topic(topic).create());
        World.refused(PulsarClientException.IncompatibleSchemaException.class, "String", () ->
            world.client.newProducer(Schema.STRING).topic(topic).create());
        World.refused(PulsarClientException.IncompatibleSchemaException.class, "String", () ->
            world.client.newConsumer(Schema.STRING).topic(topic).subscriptionName("s").subscribe());
        world.keep(world.producing(topic).create());
    }
}
