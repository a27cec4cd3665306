import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import org.apache.bookkeeper.client.LedgerMetadataBuilder;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.meta.LedgerMetadataSerDe;
import org.apache.bookkeeper.net.BookieId;

/**
 * Runs Apache BookKeeper's serializer of ledger metadata, controlled by standard input.
 *
 * <pre>
 * make VERSION OPEN|IN_RECOVERY|CLOSED   returns the bytes of a ledger as described below
 * read BYTES                             returns the re-encoded bytes and the description
 * </pre>
 *
 * Each response is a line, "ok BYTES..." or "failed EXCEPTION: MESSAGE"; bytes are in Base64.
 */
public class MetadataDriver {
    private static final List<BookieId> FIRST = bookies("192.0.2.1:3181", "192.0.2.2:3181", "b-3");
    private static final List<BookieId> SECOND = bookies("192.0.2.1:3181", "b-4", "b-3");

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                System.out.println("ok " + run(line.split(" ")));
            } catch (Exception e) {
                System.out.println("failed " + e.getClass().getSimpleName() + ": " + e.getMessage());
            }
        }
    }

    private static String run(String[] words) throws Exception {
        LedgerMetadataSerDe serializer = new LedgerMetadataSerDe();
        if (words[0].equals("make")) {
            return base64(serializer.serialize(make(Integer.parseInt(words[1]), words[2])));
        }
        byte[] bytes = Base64.getDecoder().decode(words[1]);
        LedgerMetadata metadata = serializer.parseConfig(bytes, 7L, Optional.empty());
        return base64(serializer.serialize(metadata)) + " " + metadata;
    }

    /** Creates metadata with two segments and, from version 2 on, every optional field. */
    private static LedgerMetadata make(int version, String state) {
        LedgerMetadataBuilder builder = LedgerMetadataBuilder.create()
                .withMetadataFormatVersion(version)
                .withId(7L)
                .withEnsembleSize(3)
                .withWriteQuorumSize(2)
                .withAckQuorumSize(2)
                .newEnsembleEntry(0L, FIRST)
                .newEnsembleEntry(2L, SECOND);
        if (version > 1) {
            builder = builder.withPassword(new byte[] {'p', 0, '"', 7, '\n', (byte) 0xff})
                    .withDigestType(DigestType.CRC32C)
                    .withCreationTime(1700000000000L)
                    .storingCreationTime(true)
                    .withCustomMetadata(Collections.singletonMap("owner", new byte[] {0, 1, 'x'}));
        }
        if (version > 2) {
            builder = builder.withCToken(42L);
        }
        if (state.equals("IN_RECOVERY")) {
            builder = builder.withInRecoveryState();
        } else if (state.equals("CLOSED")) {
            builder = builder.withClosedState().withLastEntryId(2L).withLength(15L);
        }
        return builder.build();
    }

    private static List<BookieId> bookies(String... ids) {
        return Arrays.stream(ids).map(BookieId::parse).collect(java.util.stream.Collectors.toList());
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
