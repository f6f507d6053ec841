import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own Java producers at work for two topics, whose leaders are two brokers: a burst for the one, and a steady
 * stream for the other. Every record has the same length. The bursts begin when each has sent one record to both.
 *
 * <p>Arguments (name=value): bootstrap, client_id; producers (how many do the same), topic and messages (the burst),
 * other and other_messages with other_interval_ms (the stream, which begins other_after_ms after the burst), value_bytes,
 * wait_ms (how long to wait for the last callbacks), stay_ms (how long the producers live on after them), and every
 * producer setting by its own name. The burst goes to a partition that broker 1 leads, the stream to one that another
 * leads.
 */
public final class TwoTopics {
    private static final Map<String, String> settings = new LinkedHashMap<>();

    public static void main(String[] arguments) throws Exception {
        Arguments.read(arguments, settings);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap"));
        properties.put("client.id", settings.get("client_id"));
        properties.put("acks", "all");
        Arguments.ofTheLibrary(settings, properties::put);
        Thread[] workers = new Thread[number("producers")];
        CyclicBarrier begin = new CyclicBarrier(workers.length);
        for (int each = 0; each < workers.length; each++) {
            workers[each] = new Thread(() -> work(properties, begin), "producer-" + each);
            workers[each].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void work(Properties properties, CyclicBarrier begin) {
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        int burst = led(producer, settings.get("topic"), true);
        int stream = led(producer, settings.get("other"), false);
        CountDownLatch open = new CountDownLatch(number("messages") + number("other_messages") + 2);
        try {
            send(producer, settings.get("topic"), burst, "burst-first", 0, open);
            send(producer, settings.get("other"), stream, "other-first", 0, open);
            producer.flush();
            begin.await();
            for (int each = 0; each < number("messages"); each++) {
                send(producer, settings.get("topic"), burst, "burst", each, open);
            }
            Thread.sleep(number("other_after_ms"));
            for (int each = 0; each < number("other_messages"); each++) {
                send(producer, settings.get("other"), stream, "other", each, open);
                Thread.sleep(number("other_interval_ms"));
            }
            open.await(number("wait_ms"), TimeUnit.MILLISECONDS);
            Thread.sleep(number("stay_ms"));
        } catch (InterruptedException | BrokenBarrierException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A partition of the topic that broker 1 leads, or one that it doesn't. */
    private static int led(KafkaProducer<byte[], byte[]> producer, String topic, boolean byTheFirst) {
        for (PartitionInfo each : producer.partitionsFor(topic)) {
            if (each.leader() != null && (each.leader().id() == 1) == byTheFirst) {
                return each.partition();
            }
        }
        throw new IllegalStateException("no partition of " + topic + " is led " + (byTheFirst ? "" : "not ") + "by broker 1");
    }

    private static void send(
        KafkaProducer<byte[], byte[]> producer, String topic, int partition, String kind, int each, CountDownLatch open
    ) {
        String thread = Thread.currentThread().getName();
        String id = settings.get("client_id") + "-" + thread + "-" + kind + String.format("-%05d", each);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition, null, new byte[number("value_bytes")]);
        record.headers().add("notleader-id", id.getBytes(StandardCharsets.UTF_8));
        long called = Outcome.nowUs();
        say(thread, id, topic, partition, called, "pending", "");
        producer.send(record, (metadata, error) -> {
            if (error == null) {
                say(thread, id, topic, partition, called, "ok", ",\"offset\":" + metadata.offset());
            } else {
                say(thread, id, topic, partition, called, "info", ",\"error\":\"" + error.getClass().getSimpleName() + "\"");
            }
            open.countDown();
        });
    }

    private static int number(String name) {
        return Integer.parseInt(settings.get(name));
    }

    private static void say(String thread, String id, String topic, int partition, long called, String outcome, String more) {
        String ended = outcome.equals("pending") ? "" : ",\"completed_at_us\":" + Outcome.nowUs();
        String line = "{\"client\":\"" + settings.get("client_id") + "\",\"client_version\":\"" + settings.get("client_version")
            + "\",\"client_id\":\"" + settings.get("client_id") + "\",\"operation\":\"send\",\"message_id\":\"" + id
            + "\",\"topic\":\"" + topic + "\",\"partition\":" + partition + ",\"called_at_us\":" + called + ended + more
            + ",\"thread\":\"" + thread + "\",\"outcome\":\"" + outcome + "\"}";
        synchronized (System.out) {
            System.out.println(line);
        }
    }
}
