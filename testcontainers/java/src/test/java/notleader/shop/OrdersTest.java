package notleader.shop;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import notleader.client.Faults;
import notleader.junit.NotLeaderExtension;
import notleader.testcontainers.NotLeaderContainer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.testcontainers.containers.Network;
import org.testcontainers.kafka.KafkaContainer;

class OrdersTest {
  static final Network network = Network.newNetwork();

  static final KafkaContainer kafka =
      new KafkaContainer("apache/kafka-native:4.1.0").withNetwork(network).withListener("kafka:19092");

  @RegisterExtension
  static final NotLeaderExtension notleader =
      NotLeaderExtension.with(
          new NotLeaderContainer("notleader").withNetwork(network).withKafka("kafka:19092").dependsOn(kafka));

  @Test
  void aSendSurvivesALeaderElection() throws Exception {
    notleader.client().add(
        Faults.error("NOT_LEADER_OR_FOLLOWER")
            .name("election")
            .match(new Faults.Match().apiKey("Produce").topic("orders"))
            .trigger(new Faults.Trigger().times(3)));

    Map<String, Object> settings = Map.of("bootstrap.servers", notleader.bootstrapServers());
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      producer.send(new ProducerRecord<>("orders", "paid")).get(60, TimeUnit.SECONDS);
    }

    notleader.client().awaitHits("election", 3, Duration.ofSeconds(10));
  }
}
