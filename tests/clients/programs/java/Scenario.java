import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/** The scenario with kafka-clients, any version from 0.11 on: what changed since is called by reflection. */
public final class Scenario {
    private static final String PREFIX = System.getenv("PREFIX");
    private static final String ORDERS = PREFIX + "-orders";
    private static final String MOVES = PREFIX + "-moves";
    private static final String GROUP = PREFIX + "-readers";
    private static final String[] CODECS = System.getenv("CODECS").split(",");
    private static final TopicPartition FIRST = new TopicPartition(ORDERS, 0);
    private static final TopicPartition SECOND = new TopicPartition(ORDERS, 1);
    private static final int RECORDS = 6 * CODECS.length + 1;

    public static void main(String[] args) throws Exception {
        Map<String, String> result = new TreeMap<>();
        try (AdminClient admin = AdminClient.create(settings())) {
            short replicas = Short.parseShort(System.getenv("REPLICAS"));
            admin.createTopics(List.of(new NewTopic(ORDERS, 2, replicas), new NewTopic(MOVES, 1, replicas))).all().get();
            List<String> brokers = new ArrayList<>();
            for (Node node : admin.describeCluster().nodes().get()) {
                brokers.add(quoted(node.host() + ":" + node.port()));
            }
            result.put("brokers", brokers.toString());
            result.put("produced", produce());
            consume(result);
            transact(result);
            if (System.getenv("GROUP_PROTOCOL") == null) {
                result.put("committed", committed());
            } else {
                share(admin, result);
            }
        }
        List<String> members = new ArrayList<>();
        result.forEach((name, value) -> members.add(quoted(name) + ":" + value));
        System.out.println("{" + String.join(",", members) + "}");
    }

    private static Properties settings(String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        for (int i = 0; i < pairs.length; i += 2) {
            settings.put(pairs[i], pairs[i + 1]);
        }
        return settings;
    }

    private static KafkaProducer<String, String> producer(String... pairs) {
        Properties settings = settings(pairs);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(settings);
    }

    private static Properties reading(String... pairs) {
        Properties settings = settings(pairs);
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return settings;
    }

    private static KafkaConsumer<String, String> member() {
        Properties settings = reading("group.id", GROUP, "auto.offset.reset", "earliest");
        if (System.getenv("GROUP_PROTOCOL") != null) {
            settings.put("group.protocol", System.getenv("GROUP_PROTOCOL"));
        }
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(ORDERS));
        return consumer;
    }

    private static String produce() throws Exception {
        List<String> produced = new ArrayList<>();
        for (String codec : CODECS) {
            List<String> places = new ArrayList<>();
            boolean idempotent = codec.equals("gzip");
            try (KafkaProducer<String, String> producer = producer("compression.type", codec, "acks", "all",
                "enable.idempotence", String.valueOf(idempotent), "max.in.flight.requests.per.connection", "1")) {
                for (int number = 0; number < 6; number++) {
                    String value = codec + " " + number;
                    ProducerRecord<String, String> record = new ProducerRecord<>(ORDERS, number % 2, value, value);
                    record.headers().add("notleader-id", value.getBytes());
                    RecordMetadata told = producer.send(record).get();
                    places.add("[" + told.partition() + "," + told.offset() + "]");
                }
            }
            produced.add(quoted(codec) + ":" + places);
        }
        try (KafkaProducer<String, String> producer = producer("acks", "0", "enable.idempotence", "false")) {
            producer.send(new ProducerRecord<>(ORDERS, 0, null, "nobody answers")).get();
        }
        return "{" + String.join(",", produced) + "}";
    }

    private static void consume(Map<String, String> result) throws Exception {
        try (KafkaConsumer<String, String> consumer = member()) {
            Map<Integer, List<String>> found = read(consumer, RECORDS);
            result.put("consumed", byPartition(found));
            consumer.commitSync(Map.of(FIRST, new OffsetAndMetadata(3), SECOND, new OffsetAndMetadata(4)));
            Map<TopicPartition, Long> begins = consumer.beginningOffsets(List.of(FIRST, SECOND));
            Map<TopicPartition, Long> ends = consumer.endOffsets(List.of(FIRST, SECOND));
            result.put("offsets", "{\"0\":[" + begins.get(FIRST) + "," + ends.get(FIRST) + "],\"1\":["
                + begins.get(SECOND) + "," + ends.get(SECOND) + "]}");
        }
        try (KafkaConsumer<String, String> consumer = member()) {
            Map<Integer, String> begun = new TreeMap<>();
            read(consumer, RECORDS - 7).forEach((partition, records) ->
                begun.put(partition, records.get(0).replaceAll("\\[(\\d+),.*", "$1")));
            result.put("resumed", byPartition(begun));
        }
    }

    private static void transact(Map<String, String> result) throws Exception {
        try (KafkaProducer<String, String> producer = producer("transactional.id", PREFIX + "-mover");
             KafkaConsumer<String, String> member = member()) {
            read(member, 1);
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(MOVES, "moved 0")).get();
            producer.send(new ProducerRecord<>(MOVES, "moved 1")).get();
            sendOffsets(producer, member);
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(MOVES, "undone")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(MOVES, "moved 2")).get();
            producer.commitTransaction();
        }
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(reading("isolation.level", "read_committed"))) {
            TopicPartition moves = new TopicPartition(MOVES, 0);
            consumer.assign(List.of(moves));
            consumer.seekToBeginning(List.of(moves));
            List<String> values = new ArrayList<>();
            for (String record : read(consumer, 3).get(0)) {
                values.add(record.substring(record.indexOf(',') + 1, record.length() - 1));
            }
            result.put("transactions", values.toString());
        }
    }

    /** Since 2.5 by the group's metadata (KIP-447), before by its name. */
    private static void sendOffsets(KafkaProducer<String, String> producer, KafkaConsumer<String, String> member)
        throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(FIRST, new OffsetAndMetadata(5));
        try {
            Object metadata = KafkaConsumer.class.getMethod("groupMetadata").invoke(member);
            Class<?> type = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, type)
                .invoke(producer, offsets, metadata);
        } catch (NoSuchMethodException e) {
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class)
                .invoke(producer, offsets, GROUP);
        }
    }

    /** What the group has committed, as a consumer without a subscription is told. */
    private static String committed() {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading("group.id", GROUP))) {
            consumer.assign(List.of(FIRST, SECOND));
            return "{\"0\":" + consumer.position(FIRST) + ",\"1\":" + consumer.position(SECOND) + "}";
        }
    }

    /** What a share group (KIP-932) hands over, acknowledged as it is polled. Only for clients that have it. */
    private static void share(AdminClient admin, Map<String, String> result) throws Exception {
        String group = PREFIX + "-sharers";
        Class<?> resourceType = Class.forName("org.apache.kafka.common.config.ConfigResource$Type");
        Object resource = Class.forName("org.apache.kafka.common.config.ConfigResource")
            .getConstructor(resourceType, String.class)
            .newInstance(resourceType.getField("GROUP").get(null), group);
        Class<?> entryType = Class.forName("org.apache.kafka.clients.admin.ConfigEntry");
        Object entry = entryType.getConstructor(String.class, String.class)
            .newInstance("share.auto.offset.reset", "earliest");
        Class<?> operationType = Class.forName("org.apache.kafka.clients.admin.AlterConfigOp");
        Class<?> opType = Class.forName("org.apache.kafka.clients.admin.AlterConfigOp$OpType");
        Object operation = operationType.getConstructor(entryType, opType)
            .newInstance(entry, opType.getField("SET").get(null));
        Object altered = AdminClient.class.getMethod("incrementalAlterConfigs", Map.class)
            .invoke(admin, Map.of(resource, List.of(operation)));
        Object all = altered.getClass().getMethod("all").invoke(altered);
        all.getClass().getMethod("get").invoke(all);
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.KafkaShareConsumer");
        List<String> values = new ArrayList<>();
        AutoCloseable consumer = (AutoCloseable) type.getConstructor(Properties.class).newInstance(shareSettings(group));
        try (consumer) {
            type.getMethod("subscribe", java.util.Collection.class).invoke(consumer, List.of(ORDERS));
            long stop = System.currentTimeMillis() + 30_000;
            while (values.size() < RECORDS && System.currentTimeMillis() < stop) {
                ConsumerRecords<?, ?> records = (ConsumerRecords<?, ?>) type.getMethod("poll", Duration.class)
                    .invoke(consumer, Duration.ofMillis(500));
                for (ConsumerRecord<?, ?> record : records) {
                    values.add(quoted((String) record.value()));
                }
            }
            type.getMethod("commitSync").invoke(consumer);
        }
        Collections.sort(values);
        result.put("shared", values.toString());
    }

    private static Properties shareSettings(String group) {
        Properties settings = reading("group.id", group);
        settings.remove("enable.auto.commit");
        return settings;
    }

    private static Map<Integer, List<String>> read(KafkaConsumer<String, String> consumer, int count) throws Exception {
        Map<Integer, List<String>> found = new TreeMap<>();
        long stop = System.currentTimeMillis() + 30_000;
        int left = count;
        while (left > 0 && System.currentTimeMillis() < stop) {
            for (ConsumerRecord<String, String> record : poll(consumer)) {
                found.computeIfAbsent(record.partition(), partition -> new ArrayList<>())
                    .add("[" + record.offset() + "," + quoted(record.value()) + "]");
                left--;
            }
        }
        return found;
    }

    /** `poll(Duration)` came with 2.0, `poll(long)` went with 4.0. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            Method poll = KafkaConsumer.class.getMethod("poll", Duration.class);
            return (ConsumerRecords<String, String>) poll.invoke(consumer, Duration.ofMillis(500));
        } catch (NoSuchMethodException e) {
            return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
        }
    }

    private static String byPartition(Map<Integer, ?> values) {
        List<String> members = new ArrayList<>();
        values.forEach((partition, value) -> members.add("\"" + partition + "\":" + value));
        return "{" + String.join(",", members) + "}";
    }

    private static String quoted(String text) {
        return "\"" + text + "\"";
    }
}
