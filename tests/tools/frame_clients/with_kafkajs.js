// What kafkajs can do, once each, against BOOTSTRAP.
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const attempt = async (what, call) => {
  try {
    await call();
  } catch (error) {
    console.error(what, error.message);
  }
};

async function main() {
  const kafka = new Kafka({ clientId: "frames", brokers: [process.env.BOOTSTRAP], logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: "orders", numPartitions: 3 }, { topic: "invoices" }] });
  const messages = [0, 1, 2].map((n) => ({ key: `k${n}`, value: `a value ${n}`, headers: { "notleader-id": `${n}` } }));
  for (const [acks, idempotent] of [[-1, true], [1, false], [0, false]]) {
    const producer = kafka.producer({ idempotent });
    await producer.connect();
    await producer.send({ topic: "orders", acks, compression: CompressionTypes.GZIP, messages });
    await producer.disconnect();
  }
  const consumer = kafka.consumer({ groupId: "group-j" });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await new Promise((resolve) => consumer.run({ eachMessage: async () => resolve() }));
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const writer = kafka.producer({ transactionalId: "tx-j", maxInFlightRequests: 1, idempotent: true });
  await writer.connect();
  const first = await writer.transaction();
  await first.send({ topic: "invoices", messages });
  await first.sendOffsets({ consumerGroupId: "group-k", topics: [{ topic: "orders", partitions: [{ partition: 0, offset: "1" }] }] });
  await first.commit();
  const second = await writer.transaction();
  await second.send({ topic: "invoices", messages });
  await second.abort();
  await writer.disconnect();
  await attempt("cluster", () => admin.describeCluster());
  await attempt("groups", () => admin.listGroups());
  await attempt("describe", () => admin.describeGroups(["group-j"]));
  await attempt("offsets", () => admin.fetchOffsets({ groupId: "group-j", topics: ["orders"] }));
  await attempt("topicOffsets", () => admin.fetchTopicOffsets("orders"));
  await attempt("configs", () => admin.describeConfigs({ resources: [{ type: 2, name: "orders" }] }));
  await consumer.disconnect();
  await attempt("deleteGroups", () => admin.deleteGroups(["group-j"]));
  await attempt("deleteTopics", () => admin.deleteTopics({ topics: ["invoices"] }));
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
