import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/**
 * A Kafka Streams application with exactly-once v2: it reads a topic, writes a record for each record to another, and a
 * reader of its own, which sees committed records only, says what really came out.
 *
 * <p>Arguments (name=value): bootstrap, client_id; topic (what it reads), output (what it writes; without, nothing),
 * messages (it is done when that many came out; without an output when it has read that many), interval_ms (how long each
 * record takes), wait_ms (it gives up when so long nothing came; three times as long before the first record, for a slow
 * machine's start is no part of the story), fill (true: it reads `<output>.read`, which it makes and fills first), and every
 * setting of Streams and its clients by its own name.
 *
 * <p>A `send` is told when the record is handed on, and `ok` when the reader has it; a read record is a `poll`. What the
 * application dies of is a `receive` that failed.
 */
public final class Streams {
    private static final Map<String, String> settings = new LinkedHashMap<>();
    private static final Map<String, Long> open = new LinkedHashMap<>();
    private static final Set<String> done = new HashSet<>();
    private static final CountDownLatch end = new CountDownLatch(1);
    private static volatile long last = System.nanoTime();
    private static volatile boolean begun;

    public static void main(String[] arguments) throws Exception {
        settings.put("messages", "20");
        settings.put("interval_ms", "0");
        settings.put("wait_ms", "12000");
        settings.put("output", "");
        settings.put("fill", "false");
        Arguments.read(arguments, settings);
        String client = settings.get("client_id");
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap"));
        properties.put("application.id", settings.getOrDefault("group_id", client));
        properties.put("client.id", client);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("auto.offset.reset", "earliest");
        properties.put("state.dir", System.getProperty("java.io.tmpdir") + "/" + client + "-" + ProcessHandle.current().pid());
        properties.put("default.key.serde", Serdes.ByteArray().getClass());
        properties.put("default.value.serde", Serdes.ByteArray().getClass());
        Arguments.ofTheLibrary(settings, properties::put);
        if (settings.get("fill").equals("true")) {
            settings.put("topic", settings.get("output") + ".read");
            fill();
        }
        StreamsBuilder builder = new StreamsBuilder();
        var stream = builder.<byte[], byte[]>stream(settings.get("topic")).process(Ship::new);
        if (!settings.get("output").isEmpty()) {
            stream.to(settings.get("output"));
            Thread reader = new Thread(Streams::read, "reader");
            reader.setDaemon(true);
            reader.start();
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            say(client, "receive", settings.get("topic"), "", ",\"called_at_us\":" + Outcome.nowUs() + ",\"completed_at_us\":" + Outcome.nowUs()
                + ",\"error\":" + Outcome.quoted(cause.getClass().getSimpleName() + ": " + cause.getMessage()), "info");
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (!end.await(100, TimeUnit.MILLISECONDS)) {
            if (System.nanoTime() - last > number("wait_ms") * (begun ? 1 : 3) * 1_000_000L) {
                if (settings.get("output").isEmpty()) {
                    say(client, "receive", settings.get("topic"), "", ",\"called_at_us\":" + Outcome.nowUs(), "pending");
                }
                break;
            }
        }
        System.out.flush();
        // Not close(): an application that hangs would keep us.
        Runtime.getRuntime().halt(0);
    }

    /** The topic that is read, made and filled before anything else: the story is about what is written. */
    private static void fill() throws Exception {
        Map<String, Object> plain = Map.of("bootstrap.servers", settings.get("bootstrap"));
        try (Admin admin = Admin.create(plain)) {
            admin.createTopics(List.of(new NewTopic(settings.get("topic"), 1, (short) 1))).all().get();
        }
        try (var producer = new KafkaProducer<>(plain, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int each = 0; each < number("messages"); each++) {
                String id = settings.get("client_id") + "-" + each;
                var record = new ProducerRecord<byte[], byte[]>(settings.get("topic"), 0, null, id.getBytes());
                record.headers().add("notleader-id", id.getBytes());
                producer.send(record);
            }
        }
    }

    private static final class Ship implements Processor<byte[], byte[], byte[], byte[]> {
        private ProcessorContext<byte[], byte[]> context;

        @Override
        public void init(ProcessorContext<byte[], byte[]> context) {
            this.context = context;
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            last = System.nanoTime();
            begun = true;
            String id = id(record.headers());
            var place = context.recordMetadata().orElseThrow();
            if (settings.get("output").isEmpty()) {
                String consumer = Thread.currentThread().getName() + "-consumer";
                say(consumer, "poll", place.topic(), id, ",\"partition\":" + place.partition() + ",\"offset\":" + place.offset()
                    + ",\"completed_at_us\":" + Outcome.nowUs(), "ok");
                if (done.add(id) && done.size() >= number("messages")) {
                    end.countDown();
                }
            } else {
                synchronized (open) {
                    // What is processed again is still the same send.
                    if (!done.contains(id) && open.putIfAbsent(id, Outcome.nowUs()) == null) {
                        send(id, "", "pending");
                    }
                }
                Headers headers = record.headers();
                headers.remove("notleader-id");
                headers.add("notleader-id", ("shipped-" + id).getBytes(StandardCharsets.UTF_8));
                context.forward(record.withHeaders(headers));
            }
            try {
                Thread.sleep(number("interval_ms"));
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** What a reader of committed records gets. */
    private static void read() {
        Map<String, Object> own = Map.of("bootstrap.servers", settings.get("bootstrap"), "isolation.level", "read_committed",
            "group.id", settings.get("client_id") + "-reader", "client.id", settings.get("client_id") + "-reader",
            "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(settings.get("output")));
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    String id = id(record.headers()).replaceFirst("^shipped-", "");
                    last = System.nanoTime();
                    synchronized (open) {
                        if (!done.add(id)) {
                            continue;
                        }
                        send(id, ",\"offset\":" + record.offset() + ",\"completed_at_us\":" + Outcome.nowUs(), "ok");
                        if (done.size() >= number("messages")) {
                            end.countDown();
                        }
                    }
                }
            }
        }
    }

    private static void send(String id, String more, String outcome) {
        say(settings.get("client_id") + "-StreamThread-1-producer", "send", settings.get("output"), "shipped-" + id,
            ",\"partition\":0,\"called_at_us\":" + open.getOrDefault(id, Outcome.nowUs()) + more, outcome);
    }

    private static String id(Headers headers) {
        return new String(headers.lastHeader("notleader-id").value(), StandardCharsets.UTF_8);
    }

    private static long number(String name) {
        return Long.parseLong(settings.get(name));
    }

    private static void say(String clientId, String operation, String topic, String id, String more, String outcome) {
        // One call is told by two threads: who sends it and who sees it come out.
        String thread = operation.equals("send") ? "stream" : Thread.currentThread().getName();
        String message = id.isEmpty() ? "" : ",\"message_id\":" + Outcome.quoted(id);
        String group = operation.equals("send") ? "" : ",\"group_id\":" + Outcome.quoted(settings.getOrDefault("group_id", settings.get("client_id")));
        String line = "{\"client\":" + Outcome.quoted(settings.get("client_id")) + ",\"client_version\":" + Outcome.quoted(settings.get("client_version"))
            + ",\"client_id\":" + Outcome.quoted(clientId) + group + ",\"operation\":\"" + operation + "\",\"topic\":" + Outcome.quoted(topic) + message + more
            + ",\"thread\":" + Outcome.quoted(thread) + ",\"outcome\":\"" + outcome + "\"}";
        synchronized (System.out) {
            System.out.println(line);
        }
    }
}
