// A producer of @platformatic/kafka, which sends numbered messages at a steady rate to its partitions in turn.
//
// Arguments (name=value): bootstrap, topic, client_id, messages, interval_ms, partitions, retries, retry_delay_ms,
// request_timeout_ms, wait_ms (how long to wait for the last answers).
import { Producer, stringSerializers } from "@platformatic/kafka";

// What the library needs of Node.js 22, where this is an older one.
Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};

const settings = {
  bootstrap: "", topic: "", client_id: "", client_version: "", messages: "30", interval_ms: "100", partitions: "1",
  retries: "3", retry_delay_ms: "250", request_timeout_ms: "2000", connect_timeout_ms: "2000", wait_ms: "12000",
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

const producer = new Producer({
  clientId: settings.client_id,
  bootstrapBrokers: settings.bootstrap.split(","),
  serializers: stringSerializers,
  retries: number("retries"),
  retryDelay: number("retry_delay_ms"),
  timeout: number("request_timeout_ms"),
  connectTimeout: number("connect_timeout_ms"),
});
const open = [];
for (let each = 0; each < number("messages"); each++) {
  if (each > 0) await pause(number("interval_ms"));
  const id = `${settings.client_id}-${each}`;
  const partition = each % number("partitions");
  const said = {
    client: settings.client_id, client_version: settings.client_version, client_id: settings.client_id,
    operation: "send", topic: settings.topic, partition, message_id: id, thread: "main", called_at_us: nowUs(),
    outcome: "pending",
  };
  say(said);
  const message = { topic: settings.topic, partition, value: id, headers: { "notleader-id": id } };
  const sending = producer.send({ messages: [message], acks: -1 });
  said.returned_at_us = nowUs();
  open.push(
    sending.then(
      (told) => say({ ...said, completed_at_us: nowUs(), outcome: "ok", offset: Number(told.offsets[0].offset) }),
      (error) => say({ ...said, completed_at_us: nowUs(), outcome: "info", error: `${error.name}: ${error.message}` }),
    ),
  );
}
await Promise.race([Promise.all(open), pause(number("wait_ms"))]);
process.exit(0); // not close(): a client that hangs would keep us
