import java.util.Map;
import org.apache.pulsar.client.admin.Schemas;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.protocol.schema.PostSchemaPayload;

/** Schemas of topics. */
final class SchemaCalls {
    public static class First {
        public int id;
    }

    public static class Second {
        public int id;
        public String name;
    }

    public static class Third {
        public String id;
    }

    static void make(AdminCalls calls) {
        Schemas schemas = calls.admin.schemas();
        String topic = "persistent://" + calls.prefix + "t/ns/typed";
        calls.run("createNonPartitionedTopic typed",
            () -> calls.admin.topics().createNonPartitionedTopic(topic));
        calls.ask("schemas.getSchemaInfo none", () -> schemas.getSchemaInfo(topic).getType());
        calls.run("schemas.createSchema",
            () -> schemas.createSchema(topic, Schema.AVRO(First.class).getSchemaInfo()));
        calls.run("schemas.createSchema second",
            () -> schemas.createSchema(topic, Schema.AVRO(Second.class).getSchemaInfo()));
        calls.run("schemas.createSchema incompatible",
            () -> schemas.createSchema(topic, Schema.AVRO(Third.class).getSchemaInfo()));
        for (String garbage : new String[] {"hello", "", "["}) {
            calls.run("schemas.createSchema of '" + garbage + "'", () -> schemas.createSchema(
                topic + "x", new PostSchemaPayload("AVRO", garbage, Map.of())));
        }
        calls.ask("schemas.getSchemaInfo", () -> schemas.getSchemaInfo(topic).getType());
        calls.ask("schemas.getSchemaInfoWithVersion",
            () -> schemas.getSchemaInfoWithVersion(topic).getVersion());
        calls.ask("schemas.getSchemaInfo of version 0",
            () -> schemas.getSchemaInfo(topic, 0).getType());
        calls.ask("schemas.getSchemaInfo of version 9",
            () -> schemas.getSchemaInfo(topic, 9).getType());
        calls.ask("schemas.getAllSchemas", () -> schemas.getAllSchemas(topic).size());
        calls.ask("schemas.getVersionBySchema", () -> schemas.getVersionBySchema(topic,
            new PostSchemaPayload("AVRO", Schema.AVRO(First.class).getSchemaInfo()
                .getSchemaDefinition(), Map.of())));
        calls.ask("schemas.testCompatibility", () -> schemas.testCompatibility(topic,
            new PostSchemaPayload("AVRO", Schema.AVRO(Second.class).getSchemaInfo()
                .getSchemaDefinition(), Map.of())).isCompatibility());
        calls.ask("schemas.getSchemaMetadata", () -> schemas.getSchemaMetadata(topic) != null);
        calls.run("schemas.deleteSchema", () -> schemas.deleteSchema(topic));
    }
}
