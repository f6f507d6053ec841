// Drives the Toxiproxy API with toxiproxy-node-client: client.mjs ADMIN_URL ECHO
import assert from "node:assert/strict";
import net from "node:net";
import { Toxiproxy } from "toxiproxy-node-client";

const [adminUrl, echo] = process.argv.slice(2);

function ping(address) {
  const [host, port] = address.split(":");
  return new Promise((resolve, reject) => {
    const started = Date.now();
    const socket = net.connect(Number(port), host, () => socket.write("ping"));
    socket.on("data", () => {
      socket.destroy();
      resolve(Date.now() - started);
    });
    socket.on("error", reject);
  });
}

const server = new Toxiproxy(adminUrl);
assert.match(await server.getVersion(), /"2\.12\.0"/);
const proxy = await server.createProxy({ name: "echo", listen: "127.0.0.1:0", upstream: echo });
assert.ok(!proxy.listen.endsWith(":0"), proxy.listen);
await assert.rejects(server.createProxy({ name: "echo", listen: "127.0.0.1:0", upstream: echo }), /409/);
const latency = await proxy.addToxic({ type: "latency", attributes: { latency: 200, jitter: 0 } });
assert.equal(latency.name, "latency_downstream");
const slow = await ping(proxy.listen);
assert.ok(slow >= 199, String(slow));
const slower = await latency.update({ attributes: { latency: 600 } });
assert.deepEqual(slower.attributes, { latency: 600, jitter: 0 });
assert.ok((await ping(proxy.listen)) >= 599);
await latency.remove();
await assert.rejects(proxy.getToxic("latency_downstream"), /404/);
await assert.rejects(proxy.addToxic({ type: "nonsense", attributes: {} }), /400/);
// Kafka faults are toxics too: of a proxy made here, and of the Kafka listeners.
// (One made here is read as Kafka from then on: the echo isn't that.)
const ofKafka = await server.createProxy({ name: "kafka", listen: "127.0.0.1:0", upstream: echo });
for (const one of [ofKafka, await server.get("bootstrap")]) {
  const attributes = { error_code: "NOT_LEADER_OR_FOLLOWER", match: { topic: "orders" }, trigger: { times: 4 } };
  const toxic = await one.addToxic({ name: "refused", type: "kafka_error", attributes });
  assert.deepEqual(toxic.attributes, attributes);
  await toxic.remove();
}
await ofKafka.remove();
const off = await proxy.update({ enabled: false });
assert.equal(off.enabled, false);
assert.equal(off.listen, proxy.listen);
await assert.rejects(ping(proxy.listen), /ECONNREFUSED/);
await server.reset();
await ping(proxy.listen);
const made = await server.populate([{ name: "other", listen: "127.0.0.1:0", upstream: echo, enabled: true }]);
assert.deepEqual(Object.keys(made), ["other"]);
const proxies = await server.getAll();
assert.deepEqual(Object.keys(proxies).sort(), ["bootstrap", "echo", "other"]);
for (const one of Object.values(proxies)) await one.remove();
await assert.rejects(server.get("echo"), /404/);
console.log("OK");
