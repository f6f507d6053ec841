import java.nio.charset.StandardCharsets;
import java.util.Map;

import notleader.recorder.RecordingProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** What Kafka Streams does with the headers of a record: they go along to whatever is made of it, to several topics. */
public final class PassesOn {
    private static final RecordingProducer<String, String> RECORDER = new RecordingProducer<>();

    public static void main(String[] arguments) {
        RECORDER.configure(Map.of("notleader.outcomes", arguments[0], "client.id", "streams"));
        ProducerRecord<String, String> sums = sent("sums"), copies = sent("copies"), more = sent("sums");
        acknowledged(copies, 7);
        acknowledged(more, 6);
        acknowledged(sums, 5);
        acknowledged(sent("sums"), 8);
        RECORDER.close();
    }

    private static ProducerRecord<String, String> sent(String topic) {
        ProducerRecord<String, String> record = new ProducerRecord<>(topic, "v");
        record.headers().add("notleader-id", "read".getBytes(StandardCharsets.UTF_8));
        return RECORDER.onSend(record);
    }

    private static void acknowledged(ProducerRecord<String, String> record, long offset) {
        TopicPartition place = new TopicPartition(record.topic(), 0);
        RECORDER.onAcknowledgement(new RecordMetadata(place, offset, 0, 0, 1, 1), null, record.headers());
    }
}
