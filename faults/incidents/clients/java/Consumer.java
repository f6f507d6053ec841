import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own Java consumer, which reads one partition, commits without waiting and closes, and writes down what it got
 * and how long close() took.
 *
 * <p>Arguments (name=value): bootstrap, topic, client_id, group_id; messages (how many it reads), close_ms (how long
 * close() may take), and every consumer setting by its own name (group.protocol=consumer …).
 */
public final class Consumer {
    private static final Map<String, String> settings = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        settings.put("messages", "10");
        settings.put("close_ms", "5000");
        Arguments.read(arguments, settings);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap"));
        properties.put("client.id", settings.get("client_id"));
        properties.put("group.id", settings.get("group_id"));
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        Arguments.ofTheLibrary(settings, properties::put);
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        TopicPartition place = new TopicPartition(settings.get("topic"), 0);
        consumer.assign(List.of(place));
        consumer.seek(place, 0); // the group need not be asked where to begin
        long next = 0;
        while (next < number("messages")) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                next = record.offset() + 1;
                say("poll", ",\"message_id\":\"" + new String(record.headers().lastHeader("notleader-id").value())
                    + "\",\"offset\":" + record.offset() + ",\"completed_at_us\":" + Outcome.nowUs(), "ok");
            }
        }
        consumer.commitAsync(Map.of(place, new OffsetAndMetadata(next)), (offsets, error) -> { });
        long called = Outcome.nowUs();
        say("close", ",\"called_at_us\":" + called, "pending");
        String error = "";
        try {
            consumer.close(Duration.ofMillis(number("close_ms")));
        } catch (RuntimeException told) {
            error = ",\"error\":\"" + told.getClass().getSimpleName() + ": " + told.getMessage() + "\"";
        }
        say("close", ",\"called_at_us\":" + called + ",\"returned_at_us\":" + Outcome.nowUs() + ",\"completed_at_us\":" + Outcome.nowUs()
            + error, error.isEmpty() ? "ok" : "info");
        Runtime.getRuntime().halt(0);
    }

    private static int number(String name) {
        return Integer.parseInt(settings.get(name));
    }

    private static void say(String operation, String more, String outcome) {
        System.out.println("{\"client\":\"" + settings.get("client_id") + "\",\"client_version\":\""
            + settings.get("client_version") + "\",\"client_id\":\"" + settings.get("client_id") + "\",\"group_id\":\""
            + settings.get("group_id") + "\",\"operation\":\"" + operation + "\",\"topic\":\"" + settings.get("topic")
            + "\",\"partition\":0,\"thread\":\"main\"" + more + ",\"outcome\":\"" + outcome + "\"}");
        System.out.flush();
    }
}
