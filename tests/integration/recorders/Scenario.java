import java.time.Duration;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Ten sends, one too large, ten reads and a commit: only configuration lines speak of the recorder. */
public final class Scenario {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Properties common = new Properties();
        common.put("bootstrap.servers", arguments[0]);
        common.put("notleader.outcomes", arguments[2]);
        String name = topic.substring("recorded-".length());
        common.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        common.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        common.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        common.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");

        Properties writing = new Properties();
        writing.putAll(common);
        writing.put("client.id", name + "-writer");
        writing.put("interceptor.classes", "notleader.recorder.RecordingProducer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(writing)) {
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(topic, "k" + number, "v"));
            }
            producer.flush();
            try {
                producer.send(new ProducerRecord<>(topic, "x".repeat(20_000))).get();
            } catch (java.util.concurrent.ExecutionException tooLarge) {
                // what the recorder is to tell
            }
        }

        Properties reading = new Properties();
        reading.putAll(common);
        reading.put("client.id", name + "-reader");
        reading.put("group.id", topic);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("interceptor.classes", "notleader.recorder.RecordingConsumer");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading)) {
            consumer.subscribe(List.of(topic));
            int got = 0;
            while (got < 10) {
                got += consumer.poll(Duration.ofMillis(500)).count();
            }
            consumer.commitSync();
        }
    }
}
