import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Generates load with Apache BookKeeper's client, protocol version 2; {@code load.py} describes the
 * commands.
 *
 * <pre>java LoadDriver METADATA_SERVICE_URI</pre>
 */
public class LoadDriver {
    private static final byte[] PASSWORD = new byte[0];
    private static final byte[] PAYLOAD = new byte[1024];
    private static final int TIMEOUT_S = 60;
    private static final int SAMPLE = 16;
    private static final int OPEN_AT_ONCE = 100;
    private static final int READ_ENTRIES = 256;
    private static final int READS_AT_ONCE = 4;
    private static final int BATCH_BYTES = 1024 * 1024;

    private final BookKeeper client;
    private final List<LedgerHandle> ledgers = new ArrayList<>();

    LoadDriver(BookKeeper client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(args[0]);
        conf.setUseV2WireProtocol(true);
        conf.setThrottleValue(0);
        conf.setAddEntryTimeout(TIMEOUT_S);
        conf.setReadEntryTimeout(TIMEOUT_S);
        try (BookKeeper client = new BookKeeper(conf)) {
            LoadDriver driver = new LoadDriver(client);
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(driver.run(line.split(" ")));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                return open(Integer.parseInt(words[1]));
            case "add":
                return add(
                        Long.MAX_VALUE,
                        Double.parseDouble(words[1]),
                        Integer.parseInt(words[2]),
                        Double.parseDouble(words[3]));
            case "fill":
                return add(Long.parseLong(words[1]), Double.MAX_VALUE, Integer.parseInt(words[2]), 0);
            case "read":
                return read(Long.parseLong(words[1]), words[2].equals("batch"));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Closes the open ledgers and creates new ones. */
    private String open(int count) throws Exception {
        for (LedgerHandle ledger : ledgers) {
            ledger.close();
        }
        ledgers.clear();
        while (ledgers.size() < count) {
            List<CompletableFuture<WriteHandle>> opened = new ArrayList<>();
            for (int i = ledgers.size(); i < count && opened.size() < OPEN_AT_ONCE; i++) {
                opened.add(client.newCreateLedgerOp()
                        .withEnsembleSize(3)
                        .withWriteQuorumSize(3)
                        .withAckQuorumSize(2)
                        .withDigestType(DigestType.CRC32C)
                        .withPassword(PASSWORD)
                        .execute());
            }
            for (CompletableFuture<WriteHandle> each : opened) {
                ledgers.add((LedgerHandle) each.get());
            }
        }
        return "{\"ledger\": " + ledgers.get(0).getId() + "}";
    }

    private String add(long most, double seconds, int window, double rate) throws Exception {
        Semaphore free = new Semaphore(window);
        AtomicReference<String> failed = new AtomicReference<>();
        AtomicInteger sampled = new AtomicInteger();
        int[] latenciesUs = new int[1 << 20];
        long started = System.nanoTime();
        long end = seconds > 1e6 ? Long.MAX_VALUE : started + (long) (seconds * 1e9);
        long pushed = 0;
        while (pushed < most && failed.get() == null) {
            long now = System.nanoTime();
            if (now >= end) {
                break;
            }
            if (rate > 0 && pushed >= (now - started) / 1e9 * rate) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
                continue;
            }
            free.acquire();
            boolean isSample = pushed % SAMPLE == 0;
            long pushedAt = isSample ? System.nanoTime() : 0;
            LedgerHandle ledger = ledgers.get((int) (pushed % ledgers.size()));
            ledger.asyncAddEntry(
                    PAYLOAD,
                    (code, handle, entryId, context) -> {
                        if (code != BKException.Code.OK) {
                            failed.compareAndSet(null, BKException.getMessage(code));
                        }
                        if (isSample) {
                            int at = sampled.getAndIncrement();
                            latenciesUs[at % latenciesUs.length] = (int) ((System.nanoTime() - pushedAt) / 1000);
                        }
                        free.release();
                    },
                    null);
            pushed++;
        }
        free.acquire(window);
        if (failed.get() != null) {
            throw new IllegalStateException(failed.get());
        }
        double took = (System.nanoTime() - started) / 1e9;
        int[] sorted = Arrays.copyOf(latenciesUs, Math.min(sampled.get(), latenciesUs.length));
        Arrays.sort(sorted);
        return String.format(
                Locale.ROOT,
                "{\"count\": %d, \"seconds\": %.6f, \"p50_ms\": %.3f, \"p99_ms\": %.3f}",
                pushed,
                took,
                sorted[sorted.length / 2] / 1000.0,
                sorted[sorted.length * 99 / 100] / 1000.0);
    }

    /** Reads all entries of a ledger up to LastAddConfirmed, with a new handle. */
    private String read(long ledgerId, boolean batches) throws Exception {
        LedgerHandle ledger =
                client.openLedgerNoRecovery(ledgerId, BookKeeper.DigestType.CRC32C, PASSWORD);
        long last = ledger.getLastAddConfirmed();
        long started = System.nanoTime();
        long count = batches ? readBatches(ledger, last) : readEntries(ledger, last);
        double took = (System.nanoTime() - started) / 1e9;
        if (count <= last) {
            throw new IllegalStateException(count + " entries read of " + (last + 1));
        }
        ledger.close();
        return String.format(Locale.ROOT, "{\"count\": %d, \"seconds\": %.6f}", count, took);
    }

    private long readEntries(LedgerHandle ledger, long last) throws Exception {
        Queue<CompletableFuture<LedgerEntries>> asked = new ArrayDeque<>();
        long count = 0;
        for (long first = 0; first <= last; first += READ_ENTRIES) {
            if (asked.size() == READS_AT_ONCE) {
                count += look(asked.remove().get());
            }
            asked.add(ledger.readAsync(first, Math.min(last, first + READ_ENTRIES - 1)));
        }
        while (!asked.isEmpty()) {
            count += look(asked.remove().get());
        }
        return count;
    }

    private long readBatches(LedgerHandle ledger, long last) throws Exception {
        long next = 0;
        while (next <= last) {
            next += look(ledger.batchReadAsync(next, 0, BATCH_BYTES).get());
        }
        return next;
    }

    private static long look(LedgerEntries entries) {
        long count = 0;
        for (LedgerEntry entry : entries) {
            if (entry.getEntryBytes().length != PAYLOAD.length) {
                throw new IllegalStateException("entry " + entry.getEntryId());
            }
            count++;
        }
        entries.close();
        return count;
    }
}
