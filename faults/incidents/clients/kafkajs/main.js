// A kafkajs client: a producer that sends numbered messages at a steady rate, or a group consumer (mode=consume).
//
// Arguments (name=value): those of outcome.go; rethrow (false: a commit that fails is no reason for eachMessage to throw).
// kafkajs has no bound on a delivery besides its retries.
const { Kafka, logLevel } = require("kafkajs");

const settings = {
  bootstrap: "", topic: "", client_id: "", client_version: "", mode: "produce", group_id: "",
  messages: "20", interval_ms: "100", partition: "0", idempotent: "false", retries: "3",
  request_timeout_ms: "2000", delivery_timeout_ms: "8000", connect_timeout_ms: "2000",
  metadata_max_age_ms: "300000", budget_ms: "0", wait_ms: "12000", commit_every: "5", instance_id: "",
  rethrow: "true",
};
for (const argument of process.argv.slice(2)) {
  const [name, ...value] = argument.split("=");
  if (!(name in settings)) throw new Error(`unknown argument: ${argument}`);
  settings[name] = value.join("=");
}
const number = (name) => Number(settings[name]);
const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
// Kafka's errors that surely kept a record out, as in notleader.recorders.lines; all else may have happened.
const REFUSED = [10, 12, 17, 18, 21, 28, 29, 30, 31, 32, 35, 42, 43, 44, 53, 76, 87];
const word = (error) => {
  for (let each = error; each; each = each.cause || each.originalError) if (REFUSED.includes(each.code)) return "fail";
  return "info";
};
const line = (operation, fields) => ({
  client: settings.client_id, client_version: settings.client_version, client_id: settings.client_id,
  ...(settings.group_id && { group_id: settings.group_id }), operation, topic: settings.topic, outcome: "pending",
  thread: "main", ...fields,
});

const kafka = new Kafka({
  clientId: settings.client_id,
  brokers: settings.bootstrap.split(","),
  connectionTimeout: number("connect_timeout_ms"),
  requestTimeout: number("request_timeout_ms"),
  retry: { retries: number("retries"), initialRetryTime: 100, maxRetryTime: 1000 },
  logLevel: logLevel.INFO,
  logCreator: () => ({ log }) => process.stderr.write(`${JSON.stringify(log)}\n`),
});

async function produce() {
  const idempotent = settings.idempotent === "true";
  const producer = kafka.producer({ idempotent, metadataMaxAge: number("metadata_max_age_ms"), ...(idempotent && { maxInFlightRequests: 1 }) });
  await producer.connect();
  const open = [];
  for (let each = 0; each < number("messages"); each++) {
    if (each > 0) await pause(number("interval_ms"));
    const id = `${settings.client_id}-${each}`;
    const said = line("send", { message_id: id, partition: number("partition") });
    if (number("budget_ms")) said.budget_ms = number("budget_ms");
    said.called_at_us = nowUs();
    say(said);
    const message = { value: id, partition: number("partition"), headers: { "notleader-id": id } };
    const sending = producer.send({ topic: settings.topic, acks: -1, timeout: number("request_timeout_ms"), messages: [message] });
    said.returned_at_us = nowUs();
    open.push(
      sending.then(
        ([told]) => say({ ...said, completed_at_us: nowUs(), outcome: "ok", offset: Number(told.baseOffset) }),
        (error) => say({ ...said, completed_at_us: nowUs(), outcome: word(error), error: `${error.name}: ${error.message}` }),
      ),
    );
  }
  await Promise.race([Promise.all(open), pause(number("wait_ms"))]);
}

async function consume() {
  const seen = new Set();
  let count = 0;
  let since = nowUs();
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  process.on("SIGTERM", () => finish());
  setInterval(() => {
    if (nowUs() - since < number("wait_ms") * 1000) return;
    say(line("receive", { called_at_us: since }));
    finish();
  }, 50);
  const consumer = kafka.consumer({
    groupId: settings.group_id, maxWaitTimeInMs: 200, sessionTimeout: 6000, heartbeatInterval: 1000,
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    const error = `${payload.error.name}: ${payload.error.message}`;
    say(line("receive", { called_at_us: nowUs(), completed_at_us: nowUs(), outcome: word(payload.error), error }));
  });
  const reading = (async () => {
    await consumer.connect();
    await consumer.subscribe({ topic: settings.topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        since = nowUs();
        const id = (message.headers?.["notleader-id"] ?? message.value).toString();
        const offset = Number(message.offset);
        say(line("poll", { message_id: id, topic, partition, offset, completed_at_us: nowUs(), outcome: "ok" }));
        seen.add(id);
        if (++count % number("commit_every") === 0) {
          const said = line("commit", { topic, partition, offset: offset + 1, called_at_us: nowUs() });
          try {
            await consumer.commitOffsets([{ topic, partition, offset: String(offset + 1) }]);
            say({ ...said, completed_at_us: nowUs(), outcome: "ok" });
          } catch (error) {
            say({ ...said, completed_at_us: nowUs(), outcome: word(error), error: `${error.name}: ${error.message}` });
            if (settings.rethrow === "true") throw error;
          }
        }
        if (seen.size >= number("messages")) finish();
      },
    });
  })();
  reading.catch((error) => {
    say(line("receive", { called_at_us: since, completed_at_us: nowUs(), outcome: word(error), error: `${error.name}: ${error.message}` }));
  });
  await finished;
}

(settings.mode === "consume" ? consume() : produce()).then(
  () => process.exit(0), // not disconnect(): a client that hangs would keep us
  (error) => {
    process.stderr.write(`${error.name}: ${error.message}\n`);
    process.exit(1);
  },
);
