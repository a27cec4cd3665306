import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** The environment of a scenario: a client, topics of its own, and the broker's HTTP API. */
class World implements AutoCloseable {
    static final int SOON_S = 20;
    static final int SILENCE_MS = 300;

    final PulsarClient client;
    final String serviceUrl;
    private final String webUrl;
    final String prefix;
    private final Deque<AutoCloseable> opened = new ArrayDeque<>();

    World(PulsarClient client, String serviceUrl, String webUrl, String prefix) {
        this.client = client;
        this.serviceUrl = serviceUrl;
        this.webUrl = webUrl;
        this.prefix = prefix;
    }

    /** Returns a client of Pulsar's admin library. */
    PulsarAdmin admin() throws Exception {
        return keep(PulsarAdmin.builder().serviceHttpUrl(webUrl).build());
    }

    /** Closes the resource after the scenario, in reverse order of opening. */
    <T extends AutoCloseable> T keep(T resource) {
        opened.push(resource);
        return resource;
    }

    @Override
    public void close() throws Exception {
        while (!opened.isEmpty()) {
            opened.pop().close();
        }
    }

    String topic(String name) {
        return "persistent://public/default/" + prefix + name;
    }

    String partitioned(String name, int partitions) throws Exception {
        http("PUT", "/admin/v2/persistent/public/default/" + prefix + name + "/partitions",
            Integer.toString(partitions));
        return topic(name);
    }

    void grow(String name, int partitions) throws Exception {
        http("POST", "/admin/v2/persistent/public/default/" + prefix + name + "/partitions",
            Integer.toString(partitions));
    }

    void unload(String name) throws Exception {
        http("PUT", "/admin/v2/persistent/public/default/" + prefix + name + "/unload", "");
    }

    /** Sends a request that must succeed, following redirects to the right broker. */
    String http(String method, String path, String body) throws Exception {
        HttpClient http = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.ALWAYS).build();
        HttpRequest request = HttpRequest.newBuilder(URI.create(webUrl + path))
            .header("Content-Type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        check(answer.statusCode() / 100 == 2, method + " " + path + ": " + answer.body());
        return answer.body();
    }

    ProducerBuilder<byte[]> producing(String topic) {
        return client.newProducer().topic(topic);
    }

    ConsumerBuilder<byte[]> consuming(String topic) {
        return client.newConsumer().topic(topic).subscriptionName("sub")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    /** Sends the messages "0", "1", ..., waiting until each one is stored. */
    List<MessageId> send(String topic, int count) throws Exception {
        try (Producer<byte[]> producer = producing(topic).enableBatching(false).create()) {
            return sendAll(producer, 0, count);
        }
    }

    /** Sends all messages at once and returns their ids in the order of sending. */
    static List<MessageId> sendAll(Producer<byte[]> producer, int from, int to) throws Exception {
        List<CompletableFuture<MessageId>> sends = new ArrayList<>();
        for (int number = from; number < to; number++) {
            sends.add(producer.sendAsync(bytes(Integer.toString(number))));
        }
        producer.flush();
        List<MessageId> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> each : sends) {
            ids.add(each.get(SOON_S, TimeUnit.SECONDS));
        }
        return ids;
    }

    /** Sends the messages in one batch, and thus in one entry. */
    List<MessageId> sendBatch(String topic, int count) throws Exception {
        try (Producer<byte[]> producer = producing(topic).enableBatching(true)
                .batchingMaxMessages(count).batchingMaxPublishDelay(10, TimeUnit.SECONDS).create()) {
            return sendAll(producer, 0, count);
        }
    }

    static <T> Message<T> receive(Consumer<T> consumer) throws Exception {
        Message<T> message = consumer.receive(SOON_S, TimeUnit.SECONDS);
        check(message != null, "no message within " + SOON_S + " s");
        return message;
    }

    static <T> List<Message<T>> receive(Consumer<T> consumer, int count) throws Exception {
        List<Message<T>> messages = new ArrayList<>();
        while (messages.size() < count) {
            messages.add(receive(consumer));
        }
        return messages;
    }

    /** Receives messages until none has arrived for a moment. */
    static <T> List<Message<T>> rest(Consumer<T> consumer) throws Exception {
        List<Message<T>> messages = new ArrayList<>();
        for (;;) {
            Message<T> message = consumer.receive(SILENCE_MS, TimeUnit.MILLISECONDS);
            if (message == null) {
                return messages;
            }
            messages.add(message);
        }
    }

    static <T> List<String> texts(List<Message<T>> messages) {
        List<String> texts = new ArrayList<>();
        for (Message<T> each : messages) {
            texts.add(new String(each.getData(), StandardCharsets.UTF_8));
        }
        return texts;
    }

    /** Returns "from", ..., "to - 1". */
    static List<String> numbers(int from, int to) {
        List<String> numbers = new ArrayList<>();
        for (int number = from; number < to; number++) {
            numbers.add(Integer.toString(number));
        }
        return numbers;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void same(Object expected, Object found) {
        check(expected.equals(found), "expected " + expected + ", found " + found);
    }

    interface Attempt {
        void run() throws Exception;
    }

    /** Checks that the attempt fails with this exception and a message that contains the words. */
    static void refused(Class<? extends Exception> kind, String words, Attempt attempt)
            throws Exception {
        try {
            attempt.run();
        } catch (Exception error) {
            check(kind.isInstance(error) && String.valueOf(error.getMessage()).contains(words),
                "expected " + kind.getSimpleName() + " with '" + words + "', found " + error);
            return;
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", nothing was raised");
    }

    interface Question {
        boolean ask() throws Exception;
    }

    /** Waits until the condition is true. */
    static void until(String what, Question question) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SOON_S);
        while (!question.ask()) {
            check(System.nanoTime() < deadline, "not within " + SOON_S + " s: " + what);
            Thread.sleep(20);
        }
    }
}
