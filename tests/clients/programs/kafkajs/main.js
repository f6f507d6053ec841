// The scenario with kafkajs; what it has no codec for, it gets from packages of others.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require("kafkajs");
const snappy = require("kafkajs-snappy");
const lz4 = require("lz4js");
const { ZstdCodec } = require("zstd-codec");

const prefix = process.env.PREFIX;
const orders = `${prefix}-orders`;
const moves = `${prefix}-moves`;
const groupId = `${prefix}-readers`;
const codecs = process.env.CODECS.split(",");
const replicationFactor = Number(process.env.REPLICAS);
const recordCount = 6 * codecs.length + 1;
const kafka = new Kafka({ clientId: "scenario", brokers: process.env.BOOTSTRAP.split(","), logLevel: logLevel.ERROR });

async function teachCodecs() {
  const zstd = await new Promise((resolve) => ZstdCodec.run((made) => resolve(new made.Simple())));
  const codec = (compress, decompress) => () => ({
    compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(decompress(buffer)),
  });
  CompressionCodecs[CompressionTypes.Snappy] = snappy;
  CompressionCodecs[CompressionTypes.LZ4] = codec((data) => lz4.compress(data), (data) => lz4.decompress(data));
  CompressionCodecs[CompressionTypes.ZSTD] = codec((data) => zstd.compress(data), (data) => zstd.decompress(data));
}

const kinds = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

const message = (value, partition = 0) => ({ key: value, value, partition, headers: { "notleader-id": value } });

async function produce() {
  const produced = {};
  for (const codec of codecs) {
    const idempotent = codec === "gzip";
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 });
    await producer.connect();
    produced[codec] = [];
    for (let number = 0; number < 6; number++) {
      const messages = [message(`${codec} ${number}`, number % 2)];
      const [told] = await producer.send({ topic: orders, acks: -1, compression: kinds[codec], messages });
      produced[codec].push([told.partition, Number(told.baseOffset)]);
    }
    await producer.disconnect();
  }
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: orders, acks: 0, messages: [message("nobody answers")] });
  await producer.disconnect();
  return produced;
}

async function read(consumer, topic, count) {
  const found = {};
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${count} records short of ${topic}`)), 60000).unref();
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message: { offset, value } }) => {
        (found[partition] ??= []).push([Number(offset), value.toString()]);
        if (--count === 0) resolve();
      },
    });
  });
  return found;
}

// Until whichever broker is asked names a leader for every partition, ten times in a row.
async function everywhere(admin, topics) {
  for (let known = 0; known < 10; known++) {
    try {
      const told = await admin.fetchTopicMetadata({ topics });
      if (told.topics.some(({ partitions }) => !partitions.length || partitions.some(({ leader }) => leader < 0))) known = 0;
    } catch (error) {
      if (!error.retriable) throw error;
      known = 0;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function main() {
  await teachCodecs();
  const result = {};
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({
    // Its own waiting gives up when one broker has not heard of the topic yet.
    waitForLeaders: false,
    topics: [
      { topic: orders, numPartitions: 2, replicationFactor },
      { topic: moves, numPartitions: 1, replicationFactor },
    ],
  });
  await everywhere(admin, [orders, moves]);
  result.brokers = (await admin.describeCluster()).brokers.map(({ host, port }) => `${host}:${port}`);
  result.produced = await produce();

  let consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200 });
  result.consumed = await read(consumer, orders, recordCount);
  await consumer.commitOffsets([
    { topic: orders, partition: 0, offset: "3" },
    { topic: orders, partition: 1, offset: "4" },
  ]);
  await consumer.disconnect();
  consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200 });
  const again = await read(consumer, orders, recordCount - 7);
  result.resumed = Object.fromEntries(Object.entries(again).map(([partition, found]) => [partition, found[0][0]]));
  await consumer.disconnect();
  const offsets = await admin.fetchTopicOffsets(orders);
  result.offsets = Object.fromEntries(offsets.map(({ partition, low, high }) => [partition, [Number(low), Number(high)]]));

  const mover = kafka.producer({ transactionalId: `${prefix}-mover`, idempotent: true, maxInFlightRequests: 1 });
  await mover.connect();
  let transaction = await mover.transaction();
  await transaction.send({ topic: moves, messages: [message("moved 0")] });
  await transaction.send({ topic: moves, messages: [message("moved 1")] });
  await transaction.sendOffsets({
    consumerGroupId: groupId,
    topics: [{ topic: orders, partitions: [{ partition: 0, offset: "5" }] }],
  });
  await transaction.commit();
  transaction = await mover.transaction();
  await transaction.send({ topic: moves, messages: [message("undone")] });
  await transaction.abort();
  transaction = await mover.transaction();
  await transaction.send({ topic: moves, messages: [message("moved 2")] });
  await transaction.commit();
  await mover.disconnect();
  // Its consumers read committed records unless told otherwise.
  consumer = kafka.consumer({ groupId: `${groupId}-2`, maxWaitTimeInMs: 200 });
  result.transactions = (await read(consumer, moves, 3))[0].map(([, value]) => value);
  await consumer.disconnect();
  const [committed] = await admin.fetchOffsets({ groupId, topics: [orders] });
  result.committed = Object.fromEntries(committed.partitions.map(({ partition, offset }) => [partition, Number(offset)]));
  await admin.disconnect();
  console.log(JSON.stringify(result));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
