import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.cluster.Broker;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.javaapi.ConsumerMetadataResponse;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.network.BlockingChannel;
import kafka.producer.KeyedMessage;
import kafka.producer.Partitioner;
import kafka.producer.ProducerConfig;
import kafka.utils.VerifiableProperties;

/** The scenario with the Scala clients of 0.8.2: its consumer groups lived in ZooKeeper, so only offsets are kept. */
public final class Scenario {
    private static final String PREFIX = System.getenv("PREFIX");
    private static final String ORDERS = PREFIX + "-orders";
    private static final String GROUP = PREFIX + "-readers";
    private static final String[] CODECS = System.getenv("CODECS").split(",");
    private static final String[] SEED = System.getenv("BOOTSTRAP").split(",")[0].split(":");
    private static final int TIMEOUT_MS = 20_000;

    /** Sends a record where the first letter of its key says. */
    public static final class ByKey implements Partitioner {
        public ByKey(VerifiableProperties properties) { }

        @Override
        public int partition(Object key, int partitions) {
            return Integer.parseInt(key.toString()) % partitions;
        }
    }

    public static void main(String[] args) throws Exception {
        for (String codec : CODECS) {
            produce(codec, "-1", 6);
        }
        produce("none", "0", 1);

        Map<Integer, Broker> leaders = new TreeMap<>();
        Set<String> brokers = new TreeSet<>();
        SimpleConsumer asking = consumer(SEED[0], Integer.parseInt(SEED[1]));
        for (TopicMetadata topic : asking.send(new TopicMetadataRequest(List.of(ORDERS))).topicsMetadata()) {
            for (PartitionMetadata partition : topic.partitionsMetadata()) {
                leaders.put(partition.partitionId(), partition.leader());
                for (Broker replica : partition.replicas()) {
                    brokers.add("\"" + replica.host() + ":" + replica.port() + "\"");
                }
            }
        }
        asking.close();
        List<String> consumed = new ArrayList<>();
        List<String> offsets = new ArrayList<>();
        for (Map.Entry<Integer, Broker> led : leaders.entrySet()) {
            SimpleConsumer consumer = consumer(led.getValue().host(), led.getValue().port());
            int partition = led.getKey();
            int count = 3 * CODECS.length + (partition == 0 ? 1 : 0);
            consumed.add("\"" + partition + "\":" + read(consumer, partition, count));
            offsets.add("\"" + partition + "\":[" + offset(consumer, partition, kafka.api.OffsetRequest.EarliestTime())
                + "," + offset(consumer, partition, kafka.api.OffsetRequest.LatestTime()) + "]");
            consumer.close();
        }
        System.out.println("{\"brokers\":" + brokers + ",\"consumed\":{" + String.join(",", consumed)
            + "},\"offsets\":{" + String.join(",", offsets) + "},\"committed\":" + commit() + "}");
    }

    private static void produce(String codec, String acks, int count) {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", System.getenv("BOOTSTRAP"));
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        settings.put("partitioner.class", ByKey.class.getName());
        settings.put("request.required.acks", acks);
        settings.put("compression.codec", codec);
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        for (int number = 0; number < count; number++) {
            String value = acks.equals("0") ? "nobody answers" : codec + " " + number;
            producer.send(new KeyedMessage<>(ORDERS, String.valueOf(number), value));
        }
        producer.close();
    }

    private static SimpleConsumer consumer(String host, int port) {
        return new SimpleConsumer(host, port, TIMEOUT_MS, 1 << 16, "scenario");
    }

    private static List<String> read(SimpleConsumer consumer, int partition, int count) throws Exception {
        List<String> found = new ArrayList<>();
        long next = 0;
        long stop = System.currentTimeMillis() + 30_000;
        while (found.size() < count && System.currentTimeMillis() < stop) {
            FetchResponse answer = consumer.fetch(new FetchRequestBuilder().clientId("scenario").minBytes(1).maxWait(500)
                .addFetch(ORDERS, partition, next, 1 << 16).build());
            for (MessageAndOffset each : answer.messageSet(ORDERS, partition)) {
                byte[] value = new byte[each.message().payload().limit()];
                each.message().payload().get(value);
                if (each.offset() >= next) {
                    found.add("[" + each.offset() + ",\"" + new String(value) + "\"]");
                    next = each.nextOffset();
                }
            }
        }
        return found;
    }

    private static long offset(SimpleConsumer consumer, int partition, long when) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = new HashMap<>();
        asked.put(new TopicAndPartition(ORDERS, partition), new PartitionOffsetRequestInfo(when, 1));
        return consumer.getOffsetsBefore(new OffsetRequest(asked, kafka.api.OffsetRequest.CurrentVersion(), "scenario"))
            .offsets(ORDERS, partition)[0];
    }

    /** Commit through the group's coordinator, and what it says is committed. */
    private static String commit() throws Exception {
        BlockingChannel seed = channel(SEED[0], Integer.parseInt(SEED[1]));
        Broker coordinator = null;
        for (int attempt = 0; coordinator == null && attempt < 50; attempt++) {
            seed.send(new kafka.api.ConsumerMetadataRequest(GROUP, (short) 0, attempt, "scenario"));
            ConsumerMetadataResponse answer = ConsumerMetadataResponse.readFrom(seed.receive().buffer());
            coordinator = answer.errorCode() == 0 ? answer.coordinator() : null;
            if (coordinator == null) {
                Thread.sleep(200);
            }
        }
        seed.disconnect();
        BlockingChannel channel = channel(coordinator.host(), coordinator.port());
        Map<TopicAndPartition, OffsetAndMetadata> offsets = new HashMap<>();
        List<TopicAndPartition> asked = new ArrayList<>();
        for (int partition = 0; partition < 2; partition++) {
            asked.add(new TopicAndPartition(ORDERS, partition));
            offsets.put(asked.get(partition), new OffsetAndMetadata(3 + partition, "", System.currentTimeMillis()));
        }
        channel.send(new OffsetCommitRequest(GROUP, offsets, 1, "scenario", (short) 1).underlying());
        channel.receive();
        channel.send(new OffsetFetchRequest(GROUP, asked, (short) 1, 2, "scenario").underlying());
        Map<TopicAndPartition, OffsetMetadataAndError> told =
            kafka.javaapi.OffsetFetchResponse.readFrom(channel.receive().buffer()).offsets();
        channel.disconnect();
        return "{\"0\":" + told.get(asked.get(0)).offset() + ",\"1\":" + told.get(asked.get(1)).offset() + "}";
    }

    private static BlockingChannel channel(String host, int port) {
        BlockingChannel channel = new BlockingChannel(host, port, BlockingChannel.UseDefaultBufferSize(),
            BlockingChannel.UseDefaultBufferSize(), TIMEOUT_MS);
        channel.connect();
        return channel;
    }
}
