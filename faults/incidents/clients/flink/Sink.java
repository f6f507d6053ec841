import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A Flink job that makes records and writes them with its KafkaSink, exactly once. When it fails it is started again
 * from its newest checkpoint. A reader of its own, which sees committed records only, says what really came out.
 *
 * <p>Arguments (name=value): bootstrap, client_id, topic (one partition), transactional_id (the prefix), strategy (the
 * sink's TransactionNamingStrategy), messages, per_second (how many in each second), parallelism, again (its parallelism
 * when it is started again), checkpoint_ms (between two checkpoints), expires_ms (how long one may take), wait_ms (the reader gives up when the job is over
 * and so long nothing came), and every setting of the producers by its own name.
 *
 * <p>The producers' client id is the job's, with `-before` and, when it is started again, `-after`. A `send` is told when
 * the job is over that wrote it, for only then does the job say that it is committed. What a job fails of is a
 * `receive` that failed, and the reader's wait is one that is pending until something comes.
 */
public final class Sink {
    private static final Map<String, String> settings = new LinkedHashMap<>();
    private static final Map<String, Long> handed = new ConcurrentHashMap<>();
    private static final Set<String> read = new HashSet<>();
    private static volatile long last = System.nanoTime();
    private static volatile long lastUs = Outcome.nowUs();

    public static void main(String[] arguments) throws Exception {
        settings.put("strategy", "POOLING");
        settings.put("messages", "200");
        settings.put("per_second", "20");
        settings.put("parallelism", "2");
        settings.put("again", "2");
        settings.put("checkpoint_ms", "1000");
        settings.put("expires_ms", "4000");
        settings.put("wait_ms", "8000");
        Arguments.read(arguments, settings);
        Thread reader = new Thread(Sink::read, "reader");
        reader.setDaemon(true);
        reader.start();
        Path folder = Files.createTempDirectory("flink-sink");
        boolean over = job("before", number("parallelism"), folder);
        if (!over) {
            over = job("after", number("again"), folder);
        }
        if (over) {
            handed.forEach((id, calledUs) -> say(settings.get("client_id"), "send", id, ",\"called_at_us\":" + calledUs
                + ",\"completed_at_us\":" + Outcome.nowUs(), "ok"));
        }
        long since = System.nanoTime();
        while (!all() && System.nanoTime() - Math.max(last, since) < number("wait_ms") * 1_000_000L) {
            Thread.sleep(50);
        }
        if (!all()) {
            say(settings.get("client_id") + "-reader", "receive", "", ",\"called_at_us\":" + lastUs, "pending");
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Run the job, from the newest checkpoint if there is one; false when it failed. */
    private static boolean job(String life, int parallelism, Path folder) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", settings.get("checkpoint_ms") + " ms");
        configuration.setString("execution.checkpointing.min-pause", settings.get("checkpoint_ms") + " ms");
        configuration.setString("execution.checkpointing.timeout", settings.get("expires_ms") + " ms");
        configuration.setString("execution.checkpointing.tolerable-failed-checkpoints", "100");
        configuration.setString("execution.checkpointing.dir", folder.toUri().toString());
        configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        configuration.setString("restart-strategy.type", "none");
        configuration.setString("taskmanager.memory.network.max", "16 mb");
        configuration.setString("taskmanager.memory.network.min", "16 mb");
        configuration.setString("taskmanager.memory.managed.size", "0");
        Optional<Path> checkpoint = newest(folder);
        checkpoint.ifPresent(path -> configuration.setString("execution.state-recovery.path", path.toUri().toString()));
        var flink = StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
        String prefix = settings.get("client_id") + "-";
        var source = new DataGeneratorSource<String>(number -> prefix + number, number("messages"),
            RateLimiterStrategy.perSecond(number("per_second")), Types.STRING);
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "orders").uid("orders")
            .map(id -> {
                handed.putIfAbsent(id, Outcome.nowUs());
                return id;
            }).uid("handed").returns(Types.STRING)
            .sinkTo(sink(life)).uid("shipped");
        try {
            flink.execute(life);
            return true;
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            say(settings.get("client_id"), "receive", "", ",\"called_at_us\":" + Outcome.nowUs() + ",\"completed_at_us\":"
                + Outcome.nowUs() + ",\"error\":" + Outcome.quoted(cause.getClass().getSimpleName() + ": " + cause.getMessage()), "info");
            return false;
        }
    }

    private static KafkaSink<String> sink(String life) {
        KafkaSinkBuilder<String> builder = KafkaSink.<String>builder()
            .setBootstrapServers(settings.get("bootstrap"))
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(settings.get("transactional_id"))
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(settings.get("strategy")))
            .setProperty("client.id", settings.get("client_id") + "-" + life)
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(settings.get("topic"))
                .setValueSerializationSchema(new SimpleStringSchema())
                .setHeaderProvider(id -> new RecordHeaders().add("notleader-id", id.getBytes(StandardCharsets.UTF_8)))
                .build());
        Arguments.ofTheLibrary(settings, builder::setProperty);
        return builder.build();
    }

    /** The newest checkpoint that was completed. */
    private static Optional<Path> newest(Path folder) throws Exception {
        try (var files = Files.walk(folder)) {
            return files.filter(file -> file.endsWith("_metadata")).map(Path::getParent)
                .max(Comparator.comparingInt(path -> Integer.parseInt(path.getFileName().toString().substring("chk-".length()))));
        }
    }

    /** What a reader of committed records gets. */
    private static void read() {
        String client = settings.get("client_id") + "-reader";
        Map<String, Object> own = Map.of("bootstrap.servers", settings.get("bootstrap"), "isolation.level", "read_committed",
            "group.id", client, "client.id", client, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(own, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(settings.get("topic")));
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    String id = new String(record.headers().lastHeader("notleader-id").value(), StandardCharsets.UTF_8);
                    last = System.nanoTime();
                    lastUs = Outcome.nowUs();
                    say(client, "poll", id, ",\"partition\":" + record.partition() + ",\"offset\":" + record.offset()
                        + ",\"completed_at_us\":" + lastUs, "ok");
                    synchronized (read) {
                        read.add(id);
                    }
                }
            }
        }
    }

    private static boolean all() {
        synchronized (read) {
            return read.size() >= number("messages");
        }
    }

    private static int number(String name) {
        return Integer.parseInt(settings.get(name));
    }

    private static void say(String clientId, String operation, String id, String more, String outcome) {
        String message = id.isEmpty() ? "" : ",\"message_id\":" + Outcome.quoted(id);
        String group = clientId.endsWith("-reader") ? ",\"group_id\":" + Outcome.quoted(clientId) : "";
        String line = "{\"client\":" + Outcome.quoted(settings.get("client_id")) + ",\"client_version\":" + Outcome.quoted(settings.get("client_version"))
            + ",\"client_id\":" + Outcome.quoted(clientId) + group + ",\"operation\":\"" + operation + "\",\"topic\":"
            + Outcome.quoted(settings.get("topic")) + message + more + ",\"thread\":" + Outcome.quoted(Thread.currentThread().getName())
            + ",\"outcome\":\"" + outcome + "\"}";
        synchronized (System.out) {
            System.out.println(line);
        }
    }
}
