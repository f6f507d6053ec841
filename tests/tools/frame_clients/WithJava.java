import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** What kafka-clients can do, once each, against BOOTSTRAP. Compiles with 3.9 and with 4.x. */
public final class WithJava {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";
    private static final TopicPartition FIRST = new TopicPartition("orders", 0);

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic("orders", 3, (short) 1), new NewTopic("invoices", 1, (short) 1)))
                .all().get();
            for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                produce(compression, "all");
            }
            produce("none", "0");
            produce("none", "1");
            consumeAndTransact("classic");
            attempt("consumer protocol", () -> {
                consumeAndTransact("consumer");
                return null;
            });
            attempt("share group", () -> share());
            administer(admin);
        }
    }

    private static Properties settings(String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        settings.put("key.serializer", BYTES + "Serializer");
        settings.put("value.serializer", BYTES + "Serializer");
        settings.put("key.deserializer", BYTES + "Deserializer");
        settings.put("value.deserializer", BYTES + "Deserializer");
        for (int i = 0; i < pairs.length; i += 2) {
            settings.put(pairs[i], pairs[i + 1]);
        }
        return settings;
    }

    private static void produce(String compression, String acks) throws Exception {
        Properties settings = settings("compression.type", compression, "acks", acks, "linger.ms", "20");
        settings.put("enable.idempotence", acks.equals("all"));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            List<Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < 9; number++) {
                ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>("orders", number % 3, null, ("a value " + number).getBytes());
                record.headers().add("notleader-id", String.valueOf(number).getBytes());
                sent.add(producer.send(record));
            }
            for (Future<?> one : sent) {
                one.get();
            }
        }
    }

    private static void consumeAndTransact(String protocol) throws Exception {
        Properties reading = settings("group.id", "group-" + protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "isolation.level", "read_committed", "group.protocol", protocol);
        Properties writing = settings("transactional.id", "tx-" + protocol);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading);
             KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing)) {
            consumer.subscribe(List.of("orders"));
            for (int tries = 0; tries < 40 && consumer.poll(Duration.ofMillis(250)).isEmpty(); tries++) { }
            consumer.commitSync();
            consumer.endOffsets(List.of(FIRST));
            consumer.offsetsForTimes(Map.of(FIRST, 1L));
            consumer.committed(java.util.Set.of(FIRST));
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("invoices", "in a transaction".getBytes()));
            producer.sendOffsetsToTransaction(Map.of(FIRST, new OffsetAndMetadata(1)), consumer.groupMetadata());
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("invoices", "undone".getBytes())).get();
            producer.abortTransaction();
        }
    }

    /** By reflection: 3.9 has no share consumer that a client may use. */
    private static Object share() throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.KafkaShareConsumer");
        AutoCloseable consumer = (AutoCloseable) type.getConstructor(Properties.class)
            .newInstance(settings("group.id", "share-group"));
        try (consumer) {
            type.getMethod("subscribe", java.util.Collection.class).invoke(consumer, List.of("orders"));
            type.getMethod("poll", Duration.class).invoke(consumer, Duration.ofSeconds(3));
            produce("none", "1");
            type.getMethod("poll", Duration.class).invoke(consumer, Duration.ofSeconds(3));
            type.getMethod("commitSync").invoke(consumer);
        }
        return null;
    }

    private static void administer(Admin admin) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "orders");
        attempt("describeCluster", () -> admin.describeCluster().nodes().get());
        attempt("describeTopics", () -> admin.describeTopics(List.of("orders")).allTopicNames().get());
        attempt("listTopics", () -> admin.listTopics().names().get());
        attempt("describeConfigs", () -> admin.describeConfigs(List.of(topic)).all().get());
        attempt("createPartitions", () ->
            admin.createPartitions(Map.of("invoices", NewPartitions.increaseTo(2))).all().get());
        attempt("deleteRecords", () ->
            admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(1))).all().get());
        attempt("listOffsets", () -> admin.listOffsets(Map.of(FIRST, OffsetSpec.latest())).all().get());
        attempt("listGroups", () -> admin.listConsumerGroups().all().get());
        attempt("describeGroups", () ->
            admin.describeConsumerGroups(List.of("group-classic", "group-consumer")).all().get());
        attempt("groupOffsets", () -> admin.listConsumerGroupOffsets("group-classic").all().get());
        attempt("describeLogDirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().get());
        attempt("describeProducers", () -> admin.describeProducers(List.of(FIRST)).all().get());
        attempt("listTransactions", () -> admin.listTransactions().all().get());
        attempt("describeTransactions", () -> admin.describeTransactions(List.of("tx-classic")).all().get());
        attempt("features", () -> admin.describeFeatures().featureMetadata().get());
        attempt("quorum", () -> admin.describeMetadataQuorum().quorumInfo().get());
        attempt("quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        attempt("scram", () -> admin.describeUserScramCredentials().all().get());
        attempt("reassignments", () -> admin.listPartitionReassignments().reassignments().get());
        attempt("electLeaders", () ->
            admin.electLeaders(org.apache.kafka.common.ElectionType.PREFERRED, java.util.Set.of(FIRST)).all().get());
        attempt("fenceProducers", () -> admin.fenceProducers(List.of("tx-classic")).all().get());
        attempt("alterOffsets", () ->
            admin.alterConsumerGroupOffsets("group-classic", Map.of(FIRST, new OffsetAndMetadata(2))).all().get());
        attempt("deleteOffsets", () ->
            admin.deleteConsumerGroupOffsets("group-classic", java.util.Set.of(FIRST)).all().get());
        attempt("deleteGroups", () -> admin.deleteConsumerGroups(List.of("group-classic")).all().get());
        attempt("metricsResources", () -> admin.listClientMetricsResources().all().get());
        attempt("deleteTopics", () -> admin.deleteTopics(List.of("invoices")).all().get());
    }

    private static void attempt(String what, Callable<?> call) {
        try {
            call.call();
        } catch (Exception e) {
            System.err.println(what + ": " + e);
        }
    }
}
