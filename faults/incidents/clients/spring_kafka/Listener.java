import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/**
 * A Spring listener that writes a record for each record it reads, both in one transaction, and is started again once
 * in the middle, as a deployment would.
 *
 * <p>Arguments (name=value): bootstrap, client_id, topic, output, group_id, transactional_id, messages (it is done when
 * so many different ones were read), again_ms (so long after the first record the container is stopped and started),
 * wait_ms (it gives up when so long nothing came; three times as long before the first record, for a slow machine's start
 * is no part of the story), and every setting of the producer by its own name. A record that the listener gets is a `poll`.
 */
public final class Listener {
    private static final Map<String, String> settings = new LinkedHashMap<>();
    private static final Set<String> seen = new HashSet<>();
    private static final CountDownLatch end = new CountDownLatch(1);
    private static volatile long last = System.nanoTime();
    private static volatile long first; // when the first record came; 0 before

    public static void main(String[] arguments) throws Exception {
        settings.put("messages", "20");
        settings.put("again_ms", "4000");
        settings.put("wait_ms", "6000");
        Arguments.read(arguments, settings);
        Map<String, Object> reads = new LinkedHashMap<>();
        reads.put("bootstrap.servers", settings.get("bootstrap"));
        reads.put("client.id", settings.get("client_id"));
        reads.put("group.id", settings.get("group_id"));
        reads.put("auto.offset.reset", "earliest");
        reads.put("enable.auto.commit", "false");
        Map<String, Object> writes = new LinkedHashMap<>();
        writes.put("bootstrap.servers", settings.get("bootstrap"));
        writes.put("client.id", settings.get("client_id"));
        writes.put("retries", 3);
        Arguments.ofTheLibrary(settings, writes::put);
        var producers = new DefaultKafkaProducerFactory<byte[], byte[]>(writes, new ByteArraySerializer(), new ByteArraySerializer());
        producers.setTransactionIdPrefix(settings.get("transactional_id") + "-");
        var template = new KafkaTemplate<byte[], byte[]>(producers);
        var container = container(reads, producers, template);
        container.start();
        boolean again = false;
        while (!end.await(50, TimeUnit.MILLISECONDS) && System.nanoTime() - last < patience() * 1_000_000) {
            if (!again && first != 0 && System.nanoTime() - first > number("again_ms") * 1_000_000) {
                again = true;
                container.stop();
                container = container(reads, producers, template);
                container.start();
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static long patience() {
        return number("wait_ms") * (first != 0 ? 1 : 3);
    }

    private static KafkaMessageListenerContainer<byte[], byte[]> container(
        Map<String, Object> reads, DefaultKafkaProducerFactory<byte[], byte[]> producers, KafkaTemplate<byte[], byte[]> template
    ) {
        var properties = new ContainerProperties(settings.get("topic"));
        properties.setTransactionManager(new KafkaTransactionManager<>(producers));
        properties.setMessageListener((MessageListener<byte[], byte[]>) record -> {
            last = System.nanoTime();
            first = first != 0 ? first : last;
            String id = new String(record.headers().lastHeader("notleader-id").value(), StandardCharsets.UTF_8);
            say("poll", id, record.topic(), ",\"partition\":" + record.partition() + ",\"offset\":" + record.offset()
                + ",\"completed_at_us\":" + Outcome.nowUs(), "ok");
            var written = new ProducerRecord<byte[], byte[]>(settings.get("output"), 0, null, record.value());
            written.headers().add("notleader-id", ("shipped-" + id).getBytes(StandardCharsets.UTF_8));
            template.send(written);
            if (seen.add(id) && seen.size() >= number("messages")) {
                new Thread(Listener::finish).start();
            }
        });
        return new KafkaMessageListenerContainer<>(new DefaultKafkaConsumerFactory<>(reads, new ByteArrayDeserializer(),
            new ByteArrayDeserializer()), properties);
    }

    /** Its last commits are to be seen, and what comes again. */
    private static void finish() {
        try {
            Thread.sleep(number("again_ms") + 3000);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        end.countDown();
    }

    private static long number(String name) {
        return Long.parseLong(settings.get(name));
    }

    private static void say(String operation, String id, String topic, String more, String outcome) {
        String line = "{\"client\":\"" + settings.get("client_id") + "\",\"client_version\":\"" + settings.get("client_version")
            + "\",\"client_id\":\"" + settings.get("client_id") + "\",\"group_id\":\"" + settings.get("group_id")
            + "\",\"operation\":\"" + operation + "\",\"topic\":\"" + topic + "\",\"message_id\":\"" + id + "\"" + more
            + ",\"thread\":\"" + Thread.currentThread().getName() + "\",\"outcome\":\"" + outcome + "\"}";
        synchronized (System.out) {
            System.out.println(line);
        }
    }
}
