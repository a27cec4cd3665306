import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/**
 * Runs Apache BookKeeper's client, controlled by commands on standard input.
 *
 * <pre>java LedgerDriver METADATA_SERVICE_URI v2|v3 EXPLICIT_LAC_INTERVAL_MS</pre>
 *
 * Each line contains a command and its arguments; each response is a line, "ok RESULT..." or
 * "failed EXCEPTION: MESSAGE". Payloads are encoded in Base64. The password is always "pw".
 */
public class LedgerDriver {
    private static final byte[] PASSWORD = "pw".getBytes();

    private final BookKeeper client;
    private final Map<Long, LedgerHandle> open = new HashMap<>();

    LedgerDriver(BookKeeper client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(args[0]);
        conf.setUseV2WireProtocol(args[1].equals("v2"));
        conf.setExplictLacInterval(Integer.parseInt(args[2]));
        try (BookKeeper client = new BookKeeper(conf)) {
            LedgerDriver driver = new LedgerDriver(client);
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(driver.answer(line.split(" ", -1)));
            }
        }
        // Exit without waiting for Netty's threads.
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] words) {
        try {
            return "ok " + run(words);
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            return "failed " + cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "create":
                return create(words);
            case "add":
                return add(words);
            case "close":
                open.get(Long.parseLong(words[1])).close();
                return "";
            case "open":
                return open(words);
            case "read":
                return read(words);
            case "batchread":
                return batchRead(words);
            case "delete":
                client.deleteLedger(Long.parseLong(words[1]));
                return "";
            case "createdeferred":
                return createDeferred(words);
            case "force":
                open.get(Long.parseLong(words[1])).force().get();
                return "";
            case "confirmed":
                return Long.toString(open.get(Long.parseLong(words[1])).getLastAddConfirmed());
            case "readconfirmed":
                return Long.toString(open.get(Long.parseLong(words[1])).readLastConfirmed());
            case "readexplicit":
                return Long.toString(open.get(Long.parseLong(words[1])).readExplicitLastConfirmed());
            case "await":
                return await(words);
            case "entries":
                return entries(words);
            case "space":
                return space(words);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** create E Qw Qa DIGEST: returns the ledger id. */
    private String create(String[] words) throws Exception {
        LedgerHandle ledger =
                client.createLedger(
                        Integer.parseInt(words[1]),
                        Integer.parseInt(words[2]),
                        Integer.parseInt(words[3]),
                        BookKeeper.DigestType.valueOf(words[4]),
                        PASSWORD);
        open.put(ledger.getId(), ledger);
        return Long.toString(ledger.getId());
    }

    /** add LEDGER PAYLOAD...: adds all payloads at once; returns the last entry id. */
    private String add(String[] words) throws Exception {
        LedgerHandle ledger = open.get(Long.parseLong(words[1]));
        List<CompletableFuture<Long>> adds = new ArrayList<>();
        for (int i = 2; i < words.length; i++) {
            adds.add(ledger.appendAsync(Base64.getDecoder().decode(words[i])));
        }
        long last = -1;
        for (CompletableFuture<Long> add : adds) {
            last = add.get();
        }
        return Long.toString(last);
    }

    /** open LEDGER DIGEST recovery|norecovery: returns LastAddConfirmed and length. */
    private String open(String[] words) throws Exception {
        long id = Long.parseLong(words[1]);
        BookKeeper.DigestType digest = BookKeeper.DigestType.valueOf(words[2]);
        LedgerHandle ledger =
                words[3].equals("recovery")
                        ? client.openLedger(id, digest, PASSWORD)
                        : client.openLedgerNoRecovery(id, digest, PASSWORD);
        open.put(id, ledger);
        return ledger.getLastAddConfirmed() + " " + ledger.getLength();
    }

    /** read LEDGER FIRST LAST: returns the payloads. */
    private String read(String[] words) throws Exception {
        LedgerHandle ledger = open.get(Long.parseLong(words[1]));
        List<String> payloads = new ArrayList<>();
        long first = Long.parseLong(words[2]);
        long last = Long.parseLong(words[3]);
        for (LedgerEntry entry : Collections.list(ledger.readEntries(first, last))) {
            payloads.add(Base64.getEncoder().encodeToString(entry.getEntry()));
        }
        return String.join(" ", payloads);
    }

    /** createdeferred E Qw Qa: creates a ledger with deferred sync; returns its id. */
    private String batchRead(String[] words) throws Exception {
        LedgerHandle ledger = open.get(Long.parseLong(words[1]));
        List<String> payloads = new ArrayList<>();
        long first = Long.parseLong(words[2]);
        int maxCount = Integer.parseInt(words[3]);
        long maxSize = Long.parseLong(words[4]);
        for (LedgerEntry entry :
                Collections.list(ledger.batchReadEntries(first, maxCount, maxSize))) {
            payloads.add(Base64.getEncoder().encodeToString(entry.getEntry()));
        }
        return String.join(" ", payloads);
    }

    private String createDeferred(String[] words) throws Exception {
        LedgerHandle ledger =
                (LedgerHandle)
                        client.newCreateLedgerOp()
                                .withEnsembleSize(Integer.parseInt(words[1]))
                                .withWriteQuorumSize(Integer.parseInt(words[2]))
                                .withAckQuorumSize(Integer.parseInt(words[3]))
                                .withDigestType(DigestType.CRC32C)
                                .withPassword(PASSWORD)
                                .withWriteFlags(WriteFlag.DEFERRED_SYNC)
                                .execute()
                                .get();
        open.put(ledger.getId(), ledger);
        return Long.toString(ledger.getId());
    }

    /** await LEDGER ENTRY TIMEOUT_MS: waits for the entry; returns LastAddConfirmed and payload. */
    private String await(String[] words) throws Exception {
        LedgerHandle ledger = open.get(Long.parseLong(words[1]));
        long entry = Long.parseLong(words[2]);
        long timeoutMs = Long.parseLong(words[3]);
        try (LastConfirmedAndEntry found =
                ledger.readLastAddConfirmedAndEntryAsync(entry, timeoutMs, false).get()) {
            String payload = "-";
            if (found.hasEntry()) {
                payload = Base64.getEncoder().encodeToString(found.getEntry().getEntryBytes());
            }
            return found.getLastAddConfirmed() + " " + payload;
        }
    }

    /** entries LEDGER BOOKIE LAST: returns the ids up to LAST that the bookie reports. */
    private String entries(String[] words) throws Exception {
        long ledger = Long.parseLong(words[1]);
        try (BookKeeperAdmin admin = new BookKeeperAdmin(client)) {
            AvailabilityOfEntriesOfLedger available =
                    admin.asyncGetListOfEntriesOfLedger(BookieId.parse(words[2]), ledger).get();
            List<String> found = new ArrayList<>();
            for (long entry = 0; entry <= Long.parseLong(words[3]); entry++) {
                if (available.isEntryAvailable(entry)) {
                    found.add(Long.toString(entry));
                }
            }
            if (available.getTotalNumOfAvailableEntries() != found.size()) {
                throw new IllegalStateException("total " + available.getTotalNumOfAvailableEntries());
            }
            return String.join(" ", found);
        }
    }

    /** space BOOKIE: returns the bookie's total and free disk space in bytes. */
    private String space(String[] words) throws Exception {
        var info = client.getBookieInfo().get(BookieId.parse(words[1]));
        return info.getTotalDiskSpace() + " " + info.getFreeDiskSpace();
    }
}
