import java.io.StringReader;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Sends one record to TOPIC and reads it back, with the client settings that SETTINGS has as a properties file. */
public final class Secured {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.load(new StringReader(System.getenv("SETTINGS")));
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        for (String role : List.of("key", "value")) {
            settings.put(role + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            settings.put(role + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        String topic = System.getenv("TOPIC");
        long offset;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            offset = producer.send(new ProducerRecord<>(topic, 0, null, "for your eyes only")).get().offset();
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, offset);
            while (true) {
                for (ConsumerRecord<String, String> record : poll(consumer)) {
                    System.out.println(record.value());
                    return;
                }
            }
        }
    }

    /** By reflection: the method of old clients is gone from new ones, and theirs not yet in the old. */
    @SuppressWarnings("unchecked")
    private static Iterable<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            Object found = KafkaConsumer.class.getMethod("poll", java.time.Duration.class)
                .invoke(consumer, java.time.Duration.ofMillis(500));
            return (Iterable<ConsumerRecord<String, String>>) found;
        } catch (NoSuchMethodException old) {
            return (Iterable<ConsumerRecord<String, String>>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
        }
    }
}
