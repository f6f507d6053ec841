import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own Java consumer of a share group, which reads a topic and lets each poll acknowledge what the one before
 * brought.
 *
 * <p>Arguments (name=value): bootstrap, topic, client_id, group_id; messages (how many different ones it reads), work_ms
 * (how long it works on what a poll brought), wait_ms (it gives up when so long nothing came), and every consumer setting
 * by its own name. A record is a `poll`, its acknowledgement a `commit` that is told how it ended.
 */
public final class ShareConsumer {
    private static final Map<String, String> settings = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        settings.put("messages", "20");
        settings.put("work_ms", "100");
        settings.put("wait_ms", "8000");
        Arguments.read(arguments, settings);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap"));
        properties.put("client.id", settings.get("client_id"));
        properties.put("group.id", settings.get("group_id"));
        Arguments.ofTheLibrary(settings, properties::put);
        fromTheBeginning();
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.setAcknowledgementCommitCallback((offsets, error) -> offsets.forEach((place, each) -> {
            String told = error == null ? "" : ",\"error\":\"" + error.getClass().getSimpleName() + ": " + error.getMessage() + "\"";
            each.forEach(offset -> say("acknowledge", ",\"partition\":" + place.partition() + ",\"offset\":" + offset
                + ",\"called_at_us\":" + Outcome.nowUs() + ",\"completed_at_us\":" + Outcome.nowUs() + told, error == null ? "ok" : "info"));
        }));
        consumer.subscribe(List.of(settings.get("topic")));
        Set<String> seen = new HashSet<>();
        long last = System.nanoTime();
        while (seen.size() < number("messages") && System.nanoTime() - last < number("wait_ms") * 1_000_000) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                last = System.nanoTime();
                String id = new String(record.headers().lastHeader("notleader-id").value(), StandardCharsets.UTF_8);
                say("poll", ",\"message_id\":\"" + id + "\",\"partition\":" + record.partition() + ",\"offset\":" + record.offset()
                    + ",\"completed_at_us\":" + Outcome.nowUs(), "ok");
                seen.add(id);
                Thread.sleep(number("work_ms"));
            }
        }
        if (seen.size() < number("messages")) {
            say("receive", ",\"called_at_us\":" + (Outcome.nowUs() - number("wait_ms") * 1000), "pending");
        }
        consumer.poll(Duration.ofMillis(200));
        Thread.sleep(500);
        consumer.poll(Duration.ofMillis(200));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** A share group begins at the end, and only its own configuration can say otherwise. */
    private static void fromTheBeginning() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) settings.get("bootstrap")))) {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, settings.get("group_id"));
            AlterConfigOp earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        }
    }

    private static long number(String name) {
        return Long.parseLong(settings.get(name));
    }

    private static void say(String operation, String more, String outcome) {
        String line = "{\"client\":\"" + settings.get("client_id") + "\",\"client_version\":\"" + settings.get("client_version")
            + "\",\"client_id\":\"" + settings.get("client_id") + "\",\"group_id\":\"" + settings.get("group_id")
            + "\",\"operation\":\"" + operation + "\",\"topic\":\"" + settings.get("topic") + "\"" + more
            + ",\"thread\":\"" + Thread.currentThread().getName() + "\",\"outcome\":\"" + outcome + "\"}";
        synchronized (System.out) {
            System.out.println(line);
        }
    }
}
