import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.zip.CRC32;

import kafka.javaapi.producer.Producer;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/**
 * The Scala producer of Kafka 0.8 (kafka.javaapi), synchronous, which sends numbered messages at a steady rate.
 *
 * <p>Arguments (name=value): bootstrap, topic, client_id; messages, interval_ms, budget_ms (what the application
 * thinks that a call may take; only written down), and every producer setting by its own name
 * (request.timeout.ms=2000 …). Records of that time
 * have no headers: the key, of which each message has its own, is how a record on the wire is known again.
 */
public final class OldProducer {
    private static final Map<String, String> settings = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        settings.put("messages", "1");
        settings.put("interval_ms", "100");
        settings.put("budget_ms", "60000");
        Arguments.read(arguments, settings);
        Properties properties = new Properties();
        properties.put("metadata.broker.list", settings.get("bootstrap"));
        properties.put("client.id", settings.get("client_id"));
        properties.put("producer.type", "sync");
        properties.put("request.required.acks", "1");
        properties.put("serializer.class", "kafka.serializer.StringEncoder");
        Arguments.ofTheLibrary(settings, properties::put);
        Producer<String, String> producer = new Producer<>(new ProducerConfig(properties));
        for (int each = 0; each < Integer.parseInt(settings.get("messages")); each++) {
            if (each > 0) {
                Thread.sleep(Integer.parseInt(settings.get("interval_ms")));
            }
            String id = settings.get("client_id") + "-" + each;
            long called = now();
            write(id, called, 0, "pending", null);
            Throwable error = null;
            try {
                producer.send(new KeyedMessage<>(settings.get("topic"), id, id));
            } catch (RuntimeException thrown) {
                error = thrown;
            }
            write(id, called, now(), error == null ? "ok" : "info", error);
        }
        producer.close();
    }

    private static void write(String id, long called, long returned, String outcome, Throwable error) {
        StringBuilder text = new StringBuilder("{\"client\":\"").append(settings.get("client_id"));
        text.append("\",\"client_id\":\"").append(settings.get("client_id"));
        text.append("\",\"client_version\":\"").append(settings.get("client_version"));
        text.append("\",\"operation\":\"send\",\"message_id\":\"").append(id);
        text.append("\",\"topic\":\"").append(settings.get("topic")).append("\",\"partition\":0");
        CRC32 keyHash = new CRC32();
        keyHash.update(id.getBytes(StandardCharsets.UTF_8));
        text.append(",\"key_hash\":").append(keyHash.getValue());
        text.append(",\"budget_ms\":").append(settings.get("budget_ms"));
        text.append(",\"called_at_us\":").append(called);
        if (returned > 0) {
            text.append(",\"returned_at_us\":").append(returned).append(",\"completed_at_us\":").append(returned);
        }
        if (error != null) {
            text.append(",\"error\":\"").append(error.toString().replace("\\", "\\\\").replace("\"", "'").replace("\n", " "));
            text.append('"');
        }
        System.out.println(text.append(",\"thread\":\"main\",\"outcome\":\"").append(outcome).append("\"}"));
    }

    private static long now() {
        java.time.Instant instant = java.time.Instant.now();
        return instant.getEpochSecond() * 1_000_000 + instant.getNano() / 1000;
    }
}
