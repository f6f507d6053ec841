package notleader.recorder;

import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Writes down each record that a poll hands out and each commit that worked:
 * {@code interceptor.classes=notleader.recorder.RecordingConsumer} and {@code notleader.outcomes=FILE}.
 */
public final class RecordingConsumer<K, V> implements ConsumerInterceptor<K, V> {
    private Lines lines;

    @Override
    public void configure(Map<String, ?> configuration) {
        lines = new Lines(configuration);
    }

    @Override
    public ConsumerRecords<K, V> onConsume(ConsumerRecords<K, V> records) {
        for (ConsumerRecord<K, V> record : records) {
            StringBuilder line = lines.begin("poll", Thread.currentThread().getName());
            Lines.put(line, "message_id", Lines.idIn(record.headers()));
            Lines.put(line, "topic", record.topic());
            Lines.put(line, "partition", record.partition());
            Lines.put(line, "offset", record.offset());
            Lines.put(line, "completed_at_us", Lines.nowUs());
            lines.write(line, "ok", null);
        }
        return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        for (Map.Entry<TopicPartition, OffsetAndMetadata> each : offsets.entrySet()) {
            StringBuilder line = lines.begin("commit", Thread.currentThread().getName());
            Lines.put(line, "topic", each.getKey().topic());
            Lines.put(line, "partition", each.getKey().partition());
            Lines.put(line, "offset", each.getValue().offset());
            Lines.put(line, "completed_at_us", Lines.nowUs());
            lines.write(line, "ok", null);
        }
    }

    @Override
    public void close() {
        lines.close();
    }
}
