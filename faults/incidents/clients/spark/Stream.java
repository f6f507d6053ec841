import java.nio.file.Files;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.DataTypes;

/**
 * A query of Spark's Structured Streaming with Kafka as its source, its sink, or both, in one process (`local[2]`).
 *
 * <p>Arguments (name=value): bootstrap, client_id; topic (what it reads; without, five rows in each micro-batch), output (what it
 * writes to; without, its rows are handed to the application, by `foreachBatch`), messages (it is done when that many were read
 * or written), interval_ms (between two such rows), restarts (how often a query that failed is begun again, from its
 * checkpoint), wait_ms (it gives up when no row went on for so long; three times as long before the first row);
 * `source.*` and `sink.*`, every option of the two by its own name (`source.failOnDataLoss`,
 * `sink.kafka.delivery.timeout.ms`), and `spark.*`, every setting of Spark.
 *
 * <p>A `send` is told when its row is handed to the sink, and `ok` when its micro-batch has ended; a row that the application has
 * is a `poll`. What a query dies of is a `receive` that failed.
 */
public final class Stream {
    private static final int ROWS = 5;
    private static final String ID = "cast(filter(headers, h -> h.key = 'notleader-id')[0].value as string)";
    private static final Map<String, String> settings = new LinkedHashMap<>();
    private static final Map<String, long[]> open = new LinkedHashMap<>();
    private static final Set<String> done = new HashSet<>();
    private static final CountDownLatch end = new CountDownLatch(1);
    private static volatile long lastUs; // when a row went on, or a query began; 0 before: Spark's own start is no part of the story
    private static volatile boolean begun; // a row went on

    public static void main(String[] arguments) throws Exception {
        settings.put("topic", "");
        settings.put("output", "");
        settings.put("messages", "20");
        settings.put("interval_ms", "100");
        settings.put("restarts", "0");
        settings.put("wait_ms", "12000");
        settings.put("spark.master", "local[2]");
        settings.put("spark.ui.enabled", "false");
        settings.put("spark.driver.host", "127.0.0.1");
        settings.put("spark.driver.bindAddress", "127.0.0.1");
        settings.put("spark.sql.shuffle.partitions", "1");
        Arguments.read(arguments, settings);
        String place = Files.createTempDirectory("stream").toString();
        settings.put("spark.local.dir", place);
        SparkSession.Builder builder = SparkSession.builder().appName(settings.get("client_id"));
        of("spark.").forEach((name, value) -> builder.config("spark." + name, value));
        SparkSession spark = builder.getOrCreate();
        spark.sparkContext().setLogLevel("WARN");
        spark.udf().register("handed_over", (UDF1<String, byte[]>) Stream::handedOver, DataTypes.BinaryType);
        spark.streams().addListener(new Ends());
        Thread query = new Thread(() -> query(spark, place), "query");
        query.setDaemon(true);
        query.start();
        while (!end.await(100, TimeUnit.MILLISECONDS)) {
            if (lastUs != 0 && Outcome.nowUs() - lastUs > number("wait_ms") * (begun ? 1 : 3) * 1000) {
                if (settings.get("output").isEmpty()) {
                    receive("", "pending");
                }
                break;
            }
        }
        System.out.flush();
        // No orderly end: a query that hangs would keep us.
        Runtime.getRuntime().halt(0);
    }

    private static void query(SparkSession spark, String place) {
        for (int tries = 0; tries <= number("restarts"); tries++) {
            try {
                started(spark, place).awaitTermination();
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                String told = cause.getClass().getSimpleName() + ": " + cause.getMessage();
                receive(",\"completed_at_us\":" + Outcome.nowUs() + ",\"error\":" + Outcome.quoted(told.lines().findFirst().orElse("")), "info");
            }
        }
        end.countDown();
    }

    private static StreamingQuery started(SparkSession spark, String place) throws Exception {
        Dataset<Row> rows = settings.get("topic").isEmpty() ? rate(spark) : source(spark);
        DataStreamWriter<Row> writer = settings.get("output").isEmpty() ? application(rows) : sink(rows);
        if (settings.get("topic").isEmpty()) {
            writer = writer.trigger(Trigger.ProcessingTime(ROWS * number("interval_ms")));
        }
        return writer.option("checkpointLocation", place + "/checkpoint").start();
    }

    private static Dataset<Row> source(SparkSession spark) {
        DataStreamReader reader = spark.readStream().format("kafka").option("subscribe", settings.get("topic"))
            .option("startingOffsets", "earliest").option("includeHeaders", "true");
        return reader.options(ofKafka("source.")).load().selectExpr(ID + " as id", "partition", "offset");
    }

    /** So many rows in each micro-batch, and the same ones again from a checkpoint. */
    private static Dataset<Row> rate(SparkSession spark) {
        return spark.readStream().format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
            .where("value < " + settings.get("messages"))
            .select(functions.expr("concat('" + settings.get("client_id") + "-', value)").as("id"));
    }

    private static DataStreamWriter<Row> application(Dataset<Row> rows) {
        return rows.writeStream().foreachBatch((VoidFunction2<Dataset<Row>, Long>) (batch, number) -> {
            for (Row row : batch.collectAsList()) {
                lastUs = Outcome.nowUs();
                begun = true;
                say("poll", settings.get("topic"), row.getString(0), ",\"partition\":" + row.getInt(1) + ",\"offset\":"
                    + row.getLong(2) + ",\"completed_at_us\":" + Outcome.nowUs(), "ok");
                if (done.add(row.getString(0)) && done.size() >= number("messages")) {
                    end.countDown();
                }
            }
        });
    }

    private static DataStreamWriter<Row> sink(Dataset<Row> rows) {
        Dataset<Row> written = rows.selectExpr("handed_over(id) as value",
            "array(named_struct('key', 'notleader-id', 'value', cast(concat('shipped-', id) as binary))) as headers");
        return written.writeStream().format("kafka").option("topic", settings.get("output")).options(ofKafka("sink."));
    }

    /** A task does this with each row before the sink has it; the row's value. */
    private static byte[] handedOver(String id) {
        long batch = Long.parseLong(TaskContext.get().getLocalProperty("streaming.sql.batchId"));
        lastUs = Outcome.nowUs();
        begun = true;
        synchronized (open) {
            // What is written again is still the same send.
            if (!done.contains(id)) {
                long[] before = open.get(id);
                open.put(id, new long[] {batch, before == null ? Outcome.nowUs() : before[1]});
                if (before == null) {
                    send(id, "", "pending");
                }
            }
        }
        return id.getBytes();
    }

    /** The sends of a micro-batch end with it. */
    private static final class Ends extends StreamingQueryListener {
        @Override
        public void onQueryStarted(QueryStartedEvent event) {
            lastUs = Outcome.nowUs();
        }

        @Override
        public void onQueryProgress(QueryProgressEvent event) {
            synchronized (open) {
                for (Map.Entry<String, long[]> each : open.entrySet()) {
                    if (each.getValue()[0] <= event.progress().batchId() && event.progress().numInputRows() > 0
                        && done.add(each.getKey())) {
                        send(each.getKey(), ",\"completed_at_us\":" + Outcome.nowUs(), "ok");
                    }
                }
                if (!settings.get("output").isEmpty() && done.size() >= number("messages")) {
                    end.countDown();
                }
            }
        }

        @Override
        public void onQueryTerminated(QueryTerminatedEvent event) {}
    }

    private static Map<String, String> ofKafka(String prefix) {
        Map<String, String> options = of(prefix);
        options.put("kafka.bootstrap.servers", settings.get("bootstrap"));
        options.put("kafka.client.id", settings.get("client_id"));
        return options;
    }

    private static Map<String, String> of(String prefix) {
        Map<String, String> found = new LinkedHashMap<>();
        settings.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), value);
            }
        });
        return found;
    }

    /** What became of the query itself, since something last went on. */
    private static void receive(String more, String outcome) {
        String topic = settings.get("topic").isEmpty() ? settings.get("output") : settings.get("topic");
        say("receive", topic, "", ",\"called_at_us\":" + lastUs + more, outcome);
    }

    private static void send(String id, String more, String outcome) {
        say("send", settings.get("output"), "shipped-" + id, ",\"partition\":0,\"called_at_us\":" + open.get(id)[1] + more, outcome);
    }

    private static long number(String name) {
        return Long.parseLong(settings.get(name));
    }

    private static void say(String operation, String topic, String id, String more, String outcome) {
        String message = id.isEmpty() ? "" : ",\"message_id\":" + Outcome.quoted(id);
        String client = Outcome.quoted(settings.get("client_id"));
        String line = "{\"client\":" + client + ",\"client_version\":" + Outcome.quoted(settings.get("client_version"))
            + ",\"client_id\":" + client + ",\"operation\":\"" + operation + "\",\"topic\":" + Outcome.quoted(topic) + message + more
            + ",\"thread\":\"query\",\"outcome\":\"" + outcome + "\"}";
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }
}
