import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.Schemas;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.protocol.schema.PostSchemaPayload;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;

/** Schemas, managed with Pulsar's admin library. */
final class SchemaAdminScenarios {
    static void add(Map<String, Driver.Scenario> scenarios) {
        scenarios.put("schemas_by_version", SchemaAdminScenarios::byVersion);
        scenarios.put("schemas_are_deleted", SchemaAdminScenarios::deleted);
        scenarios.put("schema_compatibility", SchemaAdminScenarios::compatibility);
        scenarios.put("key_value_schema_by_admin", SchemaAdminScenarios::keyValue);
    }

    private static final SchemaInfo SMALL = Schema.AVRO(Small.class).getSchemaInfo();
    private static final SchemaInfo LARGE = Schema.AVRO(Large.class).getSchemaInfo();

    public static class Small {
        public String name;
    }

    public static class Large {
        public String name;
        public String town;
    }

    private static void byVersion(World world) throws Exception {
        String topic = world.topic("schema-versions");
        Schemas schemas = world.admin().schemas();
        schemas.createSchema(topic, SMALL);
        schemas.createSchema(topic, LARGE);
        schemas.createSchema(topic, SMALL);
        World.same(LARGE.getSchemaDefinition(), schemas.getSchemaInfo(topic).getSchemaDefinition());
        World.same(1L, schemas.getSchemaInfoWithVersion(topic).getVersion());
        World.same(SMALL.getSchemaDefinition(),
            schemas.getSchemaInfo(topic, 0).getSchemaDefinition());
        World.same(SchemaType.AVRO, schemas.getSchemaInfo(topic, 0).getType());
        List<SchemaInfo> all = schemas.getAllSchemas(topic);
        World.same(2, all.size());
        World.same(LARGE.getSchemaDefinition(), all.get(1).getSchemaDefinition());
        World.same(0L, schemas.getVersionBySchema(topic, SMALL));
        World.same(2, schemas.getSchemaMetadata(topic).index.size());
    }

    private static void deleted(World world) throws Exception {
        String topic = world.topic("schema-deleted");
        Schemas schemas = world.admin().schemas();
        schemas.createSchema(topic, SMALL);
        schemas.deleteSchema(topic);
        refused(404, () -> schemas.getSchemaInfo(topic));
        refused(404, () -> schemas.getSchemaInfo(topic, 0));
        World.same(0, schemas.getAllSchemas(topic).size());
        schemas.createSchema(topic, Schema.STRING.getSchemaInfo());
        World.same(2L, schemas.getSchemaInfoWithVersion(topic).getVersion());
        schemas.deleteSchema(topic, true);
        schemas.createSchema(topic, SMALL);
        World.same(0L, schemas.getSchemaInfoWithVersion(topic).getVersion());
    }

    private static void compatibility(World world) throws Exception {
        String topic = world.topic("schema-compatibility");
        PulsarAdmin admin = world.admin();
        Schemas schemas = admin.schemas();
        schemas.createSchema(topic, SMALL);
        World.same(true, schemas.testCompatibility(topic, LARGE).isCompatibility());
        World.same("FULL", schemas.testCompatibility(topic, LARGE).getSchemaCompatibilityStrategy());
        refused(409, () -> schemas.testCompatibility(topic, Schema.INT32.getSchemaInfo()));
        refused(409, () -> schemas.createSchema(topic, Schema.INT32.getSchemaInfo()));
        for (String garbage : List.of("\"hello\"", "\"\"", "[", "")) {
            PostSchemaPayload payload = new PostSchemaPayload("AVRO", garbage, Map.of());
            refused(422, () -> schemas.createSchema(topic + "-garbage", payload));
        }
        String namespace = "public/" + topic.replaceAll("[^a-z0-9]", "");
        String other = "persistent://" + namespace + "/t";
        admin.namespaces().createNamespace(namespace);
        admin.namespaces().setSchemaCompatibilityStrategy(
            namespace, SchemaCompatibilityStrategy.ALWAYS_COMPATIBLE);
        World.same(SchemaCompatibilityStrategy.ALWAYS_COMPATIBLE,
            admin.namespaces().getSchemaCompatibilityStrategy(namespace));
        schemas.createSchema(other, SMALL);
        schemas.createSchema(other, Schema.INT32.getSchemaInfo());
        admin.namespaces().setIsAllowAutoUpdateSchema(namespace, false);
        World.same(false, admin.namespaces().getIsAllowAutoUpdateSchema(namespace));
        refused(409, () -> schemas.createSchema(other, Schema.STRING.getSchemaInfo()));
        admin.namespaces().setSchemaValidationEnforced(namespace, true);
        World.same(true, admin.namespaces().getSchemaValidationEnforced(namespace));
    }

    private static void keyValue(World world) throws Exception {
        String topic = world.topic("schema-key-value");
        Schemas schemas = world.admin().schemas();
        SchemaInfo pair =
            Schema.KeyValue(Schema.STRING, Schema.AVRO(Small.class)).getSchemaInfo();
        schemas.createSchema(topic, pair);
        SchemaInfo found = schemas.getSchemaInfo(topic);
        World.same(SchemaType.KEY_VALUE, found.getType());
        World.same(pair.getProperties(), found.getProperties());
        Consumer<GenericRecord> any = world.keep(world.client.newConsumer(Schema.AUTO_CONSUME())
            .topic(topic).subscriptionName("sub").subscribe());
        world.keep(world.client.newProducer(Schema.KeyValue(Schema.STRING, Schema.AVRO(Small.class)))
            .topic(topic).create());
        World.same(0L, schemas.getSchemaInfoWithVersion(topic).getVersion());
        World.same(true, any.isConnected());
    }

    private interface Call {
        void run() throws Exception;
    }

    private static void refused(int status, Call call) throws Exception {
        try {
            call.run();
        } catch (PulsarAdminException refusal) {
            World.same(status, refusal.getStatusCode());
            return;
        }
        throw new AssertionError("it was not refused with " + status);
    }
}
