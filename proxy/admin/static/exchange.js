// One exchange, unfolded: when it was where, what the faults did to it, and both messages as trees.
import { useEffect, useState } from "./vendor/preact-hooks.mjs";
import { call } from "./api.js";
import { errorName, html, Small } from "./html.js";

const FRAMES = ["request_frame", "response_frame"];
/** What has a place of its own here, or says nothing to people. */
const SHOWN_ELSEWHERE = new Set([...FRAMES, "effects", "partitions", "fault_names", "fault_kinds"]);

const milliseconds = (us) => `${(us / 1000).toFixed(1)} ms`;
const clock = (us) => new Date(us / 1000).toISOString().slice(11, 23);

/** The names an exchange goes by in links and keys. */
export const keyOf = (row) => `${row.connection_id}/${row.event}/${row.exchange_seq}/${row.request_at_us}`;

/** Where the time went, in order: [what, who, µs]. */
export function spans(row) {
  const { request_at_us: asked, forwarded_at_us: sent, broker_responded_at_us: answered, response_at_us: end } = row;
  const last = end ?? answered ?? sent ?? asked;
  const found = [];
  const add = (what, from, to) => from != null && to != null && to > from && found.push([what, to - from]);
  add("held before the broker", asked, sent ?? (answered == null ? last : null));
  add("at the broker", sent, answered ?? (end == null ? null : end));
  add("held before the client", answered, end);
  return found;
}

function Times({ row }) {
  const parts = spans(row);
  const whole = parts.reduce((sum, [, us]) => sum + us, 0) || 1;
  const end = row.response_at_us ?? row.broker_responded_at_us;
  return html`<figure class="times"><figcaption>Asked at ${clock(row.request_at_us)}${" "}
      ${end ? html`and answered ${milliseconds(end - row.request_at_us)} later` : "and never answered"}</figcaption>
    <div class="bars" role="img" aria-label=${parts.map(([what, us]) => `${what} ${milliseconds(us)}`).join(", ")}>
      ${parts.map(([what, us], i) => html`<span key=${i} class=${`bar-${what.split(" ")[0]}`}
        style=${`flex-grow: ${Math.max(us / whole, 0.02)}`}>${what}: ${milliseconds(us)}</span>`)}</div></figure>`;
}

/** A partition as Kafka writes it; of a topic that was refused as a whole its name. */
const placeName = ({ topic, topic_id: id, partition_index: index }) => `${topic ?? id}${index == null ? "" : `-${index}`}`;

/** What a rule did to an exchange, in words; an effect names partitions by their place in the row. */
const did = (row, effect) => [
  `${effect.rule} (${effect.kind})`, effect.did.replaceAll("_", " "),
  effect.held_us ? `for ${milliseconds(effect.held_us)}` : "",
  effect.error_code == null ? "" : `with ${errorName(effect.error_code)}`,
  effect.partitions?.length ? `for ${effect.partitions.map((at) => row.partitions[at])
    .map(placeName).join(", ")}` : "",
].filter(Boolean).join(" ");

/** Nested values as lists that fold; what is null is left out. */
function Tree({ name, value, open }) {
  if (value === null || value === undefined) return null;
  const text = name === "error_code" && typeof value === "number" && value ? `${value} (${errorName(value)})` : String(value);
  if (typeof value !== "object") return html`<li><span class="muted">${name}</span>${" "}${text}</li>`;
  const entries = Object.entries(value).filter(([, item]) => item !== null && item !== undefined);
  if (!entries.length) return html`<li><span class="muted">${name}</span>${" "}none</li>`;
  return html`<li><details open=${open}><summary>${name}${Array.isArray(value) ? ` (${value.length})` : ""}</summary>
    <ul class="tree">${entries.map(([key, item]) => html`<${Tree} key=${key} name=${key} value=${item}
      open=${open && entries.length <= 20} />`)}</ul></details></li>`;
}

/** A rule that meets the next exchange like this one. */
export function ruleLike(row) {
  const [first] = row.partitions || [];
  const match = { api_key: row.api_name };
  if (first?.topic) match.topic = first.topic;
  if (first?.topic && first.partition_index != null) match.partition_index = first.partition_index;
  if (row.client_id) match.client_id = row.client_id;
  if (row.group_id) match.group_id = row.group_id;
  const code = row.error_code || first?.error_code || "NOT_LEADER_OR_FOLLOWER";
  return { name: `like-${row.connection_id}-${row.exchange_seq}`, kind: "error", error_code: code, match };
}

/** The same as an incident file, for people to write the story of. */
export function incidentLike(row) {
  const rule = ruleLike(row);
  const topic = rule.match.topic || "orders";
  return `name: ${rule.name}
title: A title
story: >
  What happened, in a few sentences.
topics:
  - {name: ${JSON.stringify(topic)}, partitions: ${(rule.match.partition_index ?? 0) + 1}}
steps:
  - {at: 0s, add: ${JSON.stringify(rule)}}
clients:
  - {name: producer, program: aiokafka/producer.py, role: sends, arguments: {topic: ${JSON.stringify(topic)}}}
`;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
export const curlLike = (row) =>
  `curl -sS ${quoted(`${location.origin}/v1/faults`)} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(ruleLike(row)))}`;

/** A link that carries the exchange itself, without frames: it can be opened later, and by others. */
export function linkTo(row) {
  const kept = Object.fromEntries(Object.entries(row).filter(([name, value]) => value !== null && !FRAMES.includes(name)));
  const bytes = new TextEncoder().encode(JSON.stringify(kept));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `${location.origin}/#exchange=${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The exchange that the page's address carries, or null. */
export function linked() {
  const [, text] = location.hash.match(/^#exchange=([\w-]+)$/) || [];
  if (!text) return null;
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
    const row = JSON.parse(new TextDecoder().decode(bytes));
    return row && typeof row === "object" && row.event ? row : null;
  } catch {
    return null;
  }
}

function Copies({ row }) {
  const [shown, show] = useState(null);
  const copies = {
    "as rule": () => JSON.stringify(ruleLike(row), null, 2),
    "as incident": () => incidentLike(row),
    "as curl": () => curlLike(row),
    permalink: () => linkTo(row),
  };
  const copy = async (name) => {
    const text = copies[name]();
    // Without a secure context there is no clipboard: the text stands there to be copied by hand.
    const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    show({ text, said: copied ? `Copied ${name}:` : `To copy ${name}:` });
  };
  return html`<div class="buttons">${Object.keys(copies).map((name) =>
    html`<${Small} key=${name} onClick=${() => copy(name)}>Copy ${name}<//>`)}</div>
    ${shown && html`<p role="status" class="muted">${shown.said}</p><pre class="copied">${shown.text}</pre>`}`;
}

export function Exchange({ row, close }) {
  const [frames, setFrames] = useState(null);
  useEffect(() => {
    setFrames(null);
    if (!row.request_frame) return;
    const body = Object.fromEntries(FRAMES.map((name) => [name, row[name] ?? null]));
    call("POST", "/v1/exchanges/decode", body).then(setFrames, (error) => setFrames({ request: error.message }));
  }, [keyOf(row)]);
  const facts = Object.fromEntries(Object.entries(row).filter(([name]) => !SHOWN_ELSEWHERE.has(name)));
  const title = `${row.api_name ?? row.event} of ${row.client_id ?? row.client_addr ?? "nobody"}`;
  const effects = (row.effects || []).map((effect) => did(row, effect));
  return html`<section class="exchange" aria-label=${title}>
    <div class="bar"><h3>${title}</h3><${Small} label="Close the exchange" onClick=${close}>Close<//></div>
    ${row.event === "exchange" && html`<${Times} row=${row} />`}
    ${effects.length > 0 && html`<ul class="effects">${effects.map((text, i) => html`<li key=${i}>${text}</li>`)}</ul>`}
    ${row.event === "exchange" && !effects.length && html`<p class="muted">No fault touched it.</p>`}
    <ul class="tree">
      ${row.partitions?.length > 0 && html`<${Tree} name="partitions" value=${row.partitions} open=${true} />`}
      ${frames ? Object.entries(frames).map(([name, value]) => html`<${Tree} key=${name} name=${name} value=${value} open=${true} />`)
        : row.request_frame && html`<li aria-busy="true">Reading the frames…</li>`}
      <${Tree} name="row" value=${facts} open=${!frames && !row.partitions?.length} /></ul>
    ${!row.request_frame && row.event === "exchange" && html`<p class="muted">The whole messages are here when the
      recording keeps them: level <code>payload</code>.</p>`}
    ${row.event === "exchange" && html`<${Copies} row=${row} />`}</section>`;
}
