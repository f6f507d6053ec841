package notleader.recorder;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** Outcome lines of one client, appended to the file of {@code notleader.outcomes}; times in µs since the epoch, UTC. */
final class Lines implements AutoCloseable {
    /** The record header that carries a message's id. */
    static final String HEADER = "notleader-id";

    private static final Set<String> REFUSED = Set.of(
            "RecordTooLargeException", "RecordBatchTooLargeException", "InvalidTopicException", "InvalidRecordException",
            "InvalidTimestampException", "InvalidRequiredAcksException", "PolicyViolationException",
            "BufferExhaustedException", "UnsupportedVersionException", "InvalidRequestException",
            "UnsupportedForMessageFormatException", "UnsupportedCompressionTypeException", "SerializationException",
            "InvalidCommitOffsetSizeException", "OffsetMetadataTooLarge");

    private final FileChannel file;
    private final String always;

    Lines(Map<String, ?> configuration) {
        Object path = configuration.get("notleader.outcomes");
        if (path == null) {
            throw new ConfigException("notleader.outcomes is missing: the file that the outcome lines go to");
        }
        try {
            file = FileChannel.open(
                    Path.of(path.toString()), StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new ConfigException("notleader.outcomes", path, "can't be appended to: " + error.getMessage());
        }
        Object clientId = configuration.get("client.id");
        Object name = configuration.get("notleader.client");
        StringBuilder text = new StringBuilder();
        put(text, "client", name != null ? name : clientId);
        put(text, "client_id", clientId);
        put(text, "client_version", "kafka-clients" + version());
        put(text, "group_id", configuration.get("group.id"));
        put(text, "budget_ms", configuration.get("notleader.budget.ms"));
        always = text.toString();
    }

    /** The beginning of a line: who, what, on which thread. */
    StringBuilder begin(String operation, String thread) {
        StringBuilder text = new StringBuilder("{").append(always);
        put(text, "operation", operation);
        put(text, "thread", thread);
        return text;
    }

    /** Ends the line with its outcome and appends it, whole. */
    void write(CharSequence begun, String outcome, Throwable error) {
        StringBuilder text = new StringBuilder(begun);
        if (error != null) {
            put(text, "error", error.getClass().getName() + ": " + error.getMessage());
        }
        text.append("\"outcome\":\"").append(outcome).append("\"}\n");
        ByteBuffer bytes = ByteBuffer.wrap(text.toString().getBytes(StandardCharsets.UTF_8));
        try {
            synchronized (this) {
                while (bytes.hasRemaining()) {
                    file.write(bytes);
                }
            }
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /**
     * The outcome that an error makes: {@code fail} when it surely kept the operation from happening (refused before
     * anything was appended, and no retry gets past it), else {@code info}: every timeout, every cut connection, and
     * NOT_LEADER_OR_FOLLOWER, which can come after the append (KAFKA-13574). Names, because kafka-clients of any age
     * has to do.
     */
    static String ended(Throwable error) {
        if (error == null) {
            return "ok";
        }
        String name = error.getClass().getSimpleName();
        // send() itself gave up: the record never had a partition.
        boolean unsent = name.equals("TimeoutException") && String.valueOf(error.getMessage()).contains("etadata after");
        return unsent || name.endsWith("AuthorizationException") || REFUSED.contains(name) ? "fail" : "info";
    }

    static void put(StringBuilder text, String name, Object value) {
        if (value == null || value.toString().isEmpty()) {
            return;
        }
        text.append('"').append(name).append("\":");
        if (value instanceof Number || name.equals("budget_ms")) {
            text.append(value);
        } else {
            quote(text, value.toString());
        }
        text.append(',');
    }

    private static void quote(StringBuilder text, String value) {
        text.append('"');
        for (int each = 0; each < value.length(); each++) {
            char character = value.charAt(each);
            if (character == '"' || character == '\\') {
                text.append('\\').append(character);
            } else if (character < ' ') {
                text.append(String.format("\\u%04x", (int) character));
            } else {
                text.append(character);
            }
        }
        text.append('"');
    }

    /** The id in a record's headers, or null. */
    static String idIn(Headers headers) {
        Header found = headers == null ? null : headers.lastHeader(HEADER);
        return found == null || found.value() == null ? null : new String(found.value(), StandardCharsets.UTF_8);
    }

    private static String version() {
        try (InputStream file = Headers.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            Properties properties = new Properties();
            properties.load(file);
            return " " + properties.getProperty("version");
        } catch (IOException | NullPointerException repackaged) {
            return "";
        }
    }

    static long nowUs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    @Override
    public void close() {
        try {
            file.close();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }
}
