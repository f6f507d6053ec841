import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own Java producer, which sends numbered messages and writes down what became of each.
 *
 * <p>Arguments (name=value): bootstrap, topic, client_id; messages, interval_ms (between sends), value_bytes,
 * warm (none; metadata: the topic is asked for first; message: one is sent and waited for first), resend (none, or get: the callback of
 * a failed send sends the record again and waits for it there), wait_ms (how long to wait for the last callbacks), fresh
 * (true: when all is over a second producer sends one record, told as client `…-fresh`), and every producer setting by its own name (max.block.ms=1000 …).
 */
public final class Producer {
    private static final Map<String, String> settings = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        settings.put("messages", "1");
        settings.put("interval_ms", "0");
        settings.put("value_bytes", "100");
        settings.put("warm", "none");
        settings.put("resend", "none");
        settings.put("wait_ms", "5000");
        settings.put("fresh", "false");
        Arguments.read(arguments, settings);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap"));
        properties.put("client.id", settings.get("client_id"));
        properties.put("acks", "all");
        Arguments.ofTheLibrary(settings, properties::put);
        if (settings.containsKey("retries")) {
            properties.put("retries", settings.get("retries"));
        }
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        if (!settings.get("warm").equals("none")) {
            warm(producer);
        }
        int messages = number("messages");
        CountDownLatch open = new CountDownLatch(messages);
        for (int each = 0; each < messages; each++) {
            if (each > 0) {
                Thread.sleep(number("interval_ms"));
            }
            send(producer, settings.get("client_id") + "-" + each, open);
        }
        if (!open.await(number("wait_ms"), TimeUnit.MILLISECONDS)) {
            // Somebody still waits: the stacks say who for whom.
            for (ThreadInfo thread : ManagementFactory.getThreadMXBean().dumpAllThreads(false, false)) {
                System.err.println(thread);
                for (StackTraceElement frame : thread.getStackTrace()) {
                    System.err.println("\t at " + frame);
                }
            }
        }
        if (settings.get("fresh").equals("true")) {
            settings.put("client_id", settings.get("client_id") + "-fresh");
            properties.put("client.id", settings.get("client_id"));
            KafkaProducer<byte[], byte[]> fresh =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
            CountDownLatch told = new CountDownLatch(1);
            send(fresh, settings.get("client_id") + "-0", told);
            told.await(number("wait_ms"), TimeUnit.MILLISECONDS);
        }
        System.out.flush();
        // Not close(): a producer that hangs would keep us.
        Runtime.getRuntime().halt(0);
    }

    /** A machine under load needs longer for its first metadata than a max.block.ms that a story may set. */
    private static void warm(KafkaProducer<byte[], byte[]> producer) throws Exception {
        for (int tries = 30; ; tries--) {
            try {
                producer.partitionsFor(settings.get("topic"));
                break;
            } catch (TimeoutException error) {
                if (tries == 0) {
                    throw error;
                }
            }
        }
        if (settings.get("warm").equals("message")) {
            producer.send(record("warm")).get();
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String id, CountDownLatch open) {
        Line line = new Line(id);
        try {
            producer.send(record(id), (metadata, error) -> {
                if (error == null) {
                    line.finish("ok", metadata.offset(), null);
                } else {
                    line.finish(word(error), -1, error);
                    if (settings.get("resend").equals("get")) {
                        resend(producer, id);
                    }
                }
                open.countDown();
            });
        } catch (RuntimeException error) {
            line.finish("fail", -1, error);
            open.countDown();
        }
        line.returned();
    }

    /** What the documentation warns of: waiting, on the thread that has to bring what is waited for. */
    private static void resend(KafkaProducer<byte[], byte[]> producer, String id) {
        Line line = new Line(id);
        try {
            Future<RecordMetadata> sent = producer.send(record(id));
            line.returned();
            line.finish("ok", sent.get().offset(), null);
        } catch (Exception error) {
            Throwable told = error.getCause() == null ? error : error.getCause();
            line.finish(word(told), -1, told);
        }
    }

    /** What surely kept a record out, as notleader.recorders.lines knows it; all else may have happened. */
    private static String word(Throwable error) {
        String name = error.getClass().getSimpleName();
        boolean refused = error instanceof SerializationException
            || List.of("RecordTooLargeException", "RecordBatchTooLargeException", "InvalidTopicException",
                "InvalidRecordException", "InvalidTimestampException", "InvalidRequiredAcksException",
                "PolicyViolationException", "BufferExhaustedException", "UnsupportedVersionException",
                "InvalidRequestException", "UnsupportedForMessageFormatException",
                "UnsupportedCompressionTypeException").contains(name)
            || name.endsWith("AuthorizationException")
            // send() itself gave up: the record never had a partition.
            || (error instanceof TimeoutException && String.valueOf(error.getMessage()).contains("etadata after"));
        return refused ? "fail" : "info";
    }

    private static ProducerRecord<byte[], byte[]> record(String id) {
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>(settings.get("topic"), 0, null, new byte[number("value_bytes")]);
        record.headers().add("notleader-id", id.getBytes(StandardCharsets.UTF_8));
        return record;
    }

    private static int number(String name) {
        return Integer.parseInt(settings.get(name));
    }

    /** One send: pending when it is called, its last word when the callback or the future has spoken. */
    private static final class Line {
        private final String id;
        private final String thread = Thread.currentThread().getName();
        private final String client = settings.get("client_id");
        private final long calledAtUs = now();
        private long returnedAtUs;
        private long completedAtUs;
        private String outcome = "pending";
        private String rest = "";

        Line(String id) {
            this.id = id;
            write();
        }

        synchronized void returned() {
            returnedAtUs = now();
            write();
        }

        synchronized void finish(String said, long offset, Throwable error) {
            outcome = said;
            completedAtUs = now();
            rest = error == null ? ",\"offset\":" + offset : ",\"error\":" + Outcome.quoted(error.toString());
            // A callback may speak before send() has returned; one line says both, so it waits for that.
            if (returnedAtUs > 0) {
                write();
            }
        }

        private void write() {
            StringBuilder text = new StringBuilder("{\"client\":").append(Outcome.quoted(client));
            text.append(",\"client_version\":").append(Outcome.quoted(settings.get("client_version")));
            text.append(",\"client_id\":").append(Outcome.quoted(client));
            text.append(",\"operation\":\"send\",\"message_id\":").append(Outcome.quoted(id));
            text.append(",\"topic\":").append(Outcome.quoted(settings.get("topic"))).append(",\"partition\":0");
            text.append(",\"called_at_us\":").append(calledAtUs);
            if (returnedAtUs > 0) {
                text.append(",\"returned_at_us\":").append(returnedAtUs);
            }
            if (completedAtUs > 0) {
                text.append(",\"completed_at_us\":").append(completedAtUs);
            }
            text.append(rest).append(",\"thread\":").append(Outcome.quoted(thread));
            text.append(",\"outcome\":\"").append(outcome).append("\"}");
            synchronized (System.out) {
                System.out.println(text);
                System.out.flush();
            }
        }

        private static long now() {
            java.time.Instant instant = java.time.Instant.now();
            return instant.getEpochSecond() * 1_000_000 + instant.getNano() / 1000;
        }
    }
}
