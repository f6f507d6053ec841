package notleader.recorder;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Headers;

/**
 * Writes down each send: {@code interceptor.classes=notleader.recorder.RecordingProducer} and
 * {@code notleader.outcomes=FILE}.
 *
 * <p>Since kafka-clients 4.1 (KIP-512) an acknowledgement brings the record's headers and with them its id. Older
 * clients tell only the place: then a line appears when the acknowledgement does, without an id, and a send that is
 * never answered leaves none. When {@code send} returned is nothing that an interceptor gets to know.
 *
 * <p>A record that has an id keeps it, unless another with this id is still on its way to the same topic: whoever makes
 * several records of one (Kafka Streams does, with the headers of what it read) sends several messages.
 */
public final class RecordingProducer<K, V> implements ProducerInterceptor<K, V> {
    private static final boolean HEADERS_COME_BACK = headersComeBack();

    private final String prefix = UUID.randomUUID().toString();
    private final AtomicLong number = new AtomicLong();
    private final Map<String, StringBuilder> open = new ConcurrentHashMap<>();
    private Lines lines;

    @Override
    public void configure(Map<String, ?> configuration) {
        lines = new Lines(configuration);
    }

    @Override
    public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
        String id = Lines.idIn(record.headers());
        if (id != null && open.containsKey(key(record.topic(), id))) {
            // In a copy: what was sent before has headers that nobody may change.
            record = new ProducerRecord<>(
                    record.topic(), record.partition(), record.timestamp(), record.key(), record.value(), record.headers());
            record.headers().remove(Lines.HEADER);
            id = null;
        }
        if (id == null) {
            id = prefix + "-" + number.getAndIncrement();
            record.headers().add(Lines.HEADER, id.getBytes(StandardCharsets.UTF_8));
        }
        if (HEADERS_COME_BACK) {
            StringBuilder line = lines.begin("send", Thread.currentThread().getName());
            Lines.put(line, "message_id", id);
            Lines.put(line, "topic", record.topic());
            Lines.put(line, "called_at_us", Lines.nowUs());
            open.put(key(record.topic(), id), line);
            lines.write(place(line, record.partition(), -1), "pending", null);
        }
        return record;
    }

    private static String key(String topic, String id) {
        return topic + '\n' + id;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception error, Headers headers) {
        String id = Lines.idIn(headers);
        StringBuilder line = id == null || metadata == null ? null : open.remove(key(metadata.topic(), id));
        if (line == null) {
            onAcknowledgement(metadata, error);
        } else {
            settle(new StringBuilder(line), metadata, error);
        }
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception error) {
        StringBuilder line = lines.begin("send", null);
        Lines.put(line, "topic", metadata == null ? null : metadata.topic());
        settle(line, metadata, error);
    }

    private void settle(StringBuilder line, RecordMetadata metadata, Exception error) {
        Lines.put(line, "completed_at_us", Lines.nowUs());
        if (metadata != null) {
            line = place(line, metadata.partition(), metadata.hasOffset() ? metadata.offset() : -1);
        }
        lines.write(line, Lines.ended(error), error);
    }

    private static StringBuilder place(StringBuilder line, Integer partition, long offset) {
        StringBuilder text = new StringBuilder(line);
        Lines.put(text, "partition", partition == null || partition < 0 ? null : partition);
        Lines.put(text, "offset", offset < 0 ? null : offset);
        return text;
    }

    private static boolean headersComeBack() {
        try {
            ProducerInterceptor.class.getMethod(
                    "onAcknowledgement", RecordMetadata.class, Exception.class, Headers.class);
            return true;
        } catch (NoSuchMethodException older) {
            return false;
        }
    }

    @Override
    public void close() {
        lines.close();
    }
}
