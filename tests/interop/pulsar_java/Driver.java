import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;

/**
 * Runs scenarios with Apache Pulsar's client. Each input line contains the name of a scenario, the
 * broker's service and HTTP URLs, a prefix for topics, a token and a certificate's path ("-" for
 * none). The program prints "ok", or "failed" and the reason.
 */
public class Driver {
    interface Scenario {
        void run(World world) throws Exception;
    }

    private static final Map<String, Scenario> SCENARIOS = new HashMap<>();
    private static final Map<String, PulsarClient> CLIENTS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        ProducerScenarios.add(SCENARIOS);
        MessageScenarios.add(SCENARIOS);
        SubscriptionScenarios.add(SCENARIOS);
        AcknowledgingScenarios.add(SCENARIOS);
        ReaderScenarios.add(SCENARIOS);
        SchemaScenarios.add(SCENARIOS);
        SchemaAdminScenarios.add(SCENARIOS);
        RefusalScenarios.add(SCENARIOS);
        TopicAdminScenarios.add(SCENARIOS);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
        System.exit(0);
    }

    private static String answer(String[] words) {
        try (World world =
                new World(client(words[1], words[4], words[5]), words[1], words[2], words[3])) {
            SCENARIOS.get(words[0]).run(world);
            return "ok";
        } catch (Throwable problem) {
            StringBuilder story = new StringBuilder("failed ").append(problem);
            for (StackTraceElement each : problem.getStackTrace()) {
                if (each.getClassName().contains("Scenarios")) {
                    story.append(" at ").append(each);
                }
            }
            return story.toString().replace('\n', ' ');
        }
    }

    private static PulsarClient client(String url, String token, String certificate)
            throws PulsarClientException {
        PulsarClient known = CLIENTS.get(url + token);
        if (known == null) {
            ClientBuilder builder = PulsarClient.builder().serviceUrl(url)
                .operationTimeout(World.SOON_S, TimeUnit.SECONDS);
            if (!token.equals("-")) {
                builder.authentication(AuthenticationFactory.token(token));
            }
            if (!certificate.equals("-")) {
                builder.tlsTrustCertsFilePath(certificate).enableTlsHostnameVerification(true);
            }
            known = builder.build();
            CLIENTS.put(url + token, known);
        }
        return known;
    }
}
