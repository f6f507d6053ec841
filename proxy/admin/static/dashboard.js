// The dashboard: a view of /v1, redrawn from what the API says; it keeps no truth of its own.
import { h, render } from "./vendor/preact.mjs";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.mjs";
import htm from "./vendor/htm.mjs";
import { Live } from "./live.js";

const html = htm.bind(h);
const POLL_MS = 1000;

async function call(method, path, body) {
  const options = { method };
  if (body !== undefined) {
    options.body = typeof body === "string" ? body : JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const answer = await fetch(path, options);
  const text = await answer.text();
  const document = text ? JSON.parse(text) : null;
  if (!answer.ok) {
    const found = (document.problems || []).map((one) => `${one.path || "(document)"}: ${one.message}`);
    throw new Error([document.detail, ...found].join("\n"));
  }
  return document;
}

/** `state` as of the last look at each path, and `look`, which looks again now. */
function usePolled(paths) {
  const [state, setState] = useState({ reachable: true });
  const look = async () => {
    try {
      const found = await Promise.all(paths.map((path) => call("GET", path)));
      setState({ reachable: true, ...Object.fromEntries(paths.map((path, i) => [path, found[i]])) });
    } catch (error) {
      setState((before) => ({ ...before, reachable: false, reason: error.message }));
    }
  };
  useEffect(() => {
    look();
    const timer = setInterval(() => document.hidden || look(), POLL_MS);
    return () => clearInterval(timer);
  }, []);
  return [state, look];
}

const short = (value) =>
  Object.entries(value || {}).filter(([, item]) => item !== null)
    .map(([key, item]) => `${key}=${typeof item === "object" ? JSON.stringify(item) : item}`).join(" ");

function Table({ label, head, rows, empty }) {
  if (!rows.length) return html`<p class="muted">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table><thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows}</tbody></table></div>`;
}

function Faults({ rules, act }) {
  const rows = rules.map((rule) => html`<tr key=${rule.name}>
    <th scope="row">${rule.name}</th><td>${rule.kind}</td>
    <td><code>${short(rule.match) || "all"}</code></td><td><code>${short(rule.trigger) || "times=1"}</code></td>
    <td class=${rule.hits ? "hit" : ""}>${rule.hits}</td>
    <td>${rule.exhausted ? "spent" : rule.released ? "released" : "active"}</td>
    <td>
      ${rule.kind === "stall" && html`<button class="secondary outline" aria-label=${`Release ${rule.name}`}
        onClick=${() => act("POST", `/v1/faults/${encodeURIComponent(rule.name)}/release`)}>Release</button>`}
      <button class="secondary outline" aria-label=${`Remove ${rule.name}`}
        onClick=${() => act("DELETE", `/v1/faults/${encodeURIComponent(rule.name)}`)}>Remove</button>
    </td></tr>`);
  return html`<article><header><h2>Faults</h2>
    <button class="secondary outline" disabled=${!rules.length} onClick=${() => act("DELETE", "/v1/faults")}>
      Remove all</button></header>
    <${Table} label="Faults" head=${["Name", "Kind", "Match", "Trigger", "Hits", "State", ""]} rows=${rows}
      empty="No faults: the proxy tells the truth." /></article>`;
}

function AddFault({ kinds, act }) {
  const [kind, setKind] = useState("error");
  const [text, setText] = useState("");
  const starter = (name) => {
    const document = { kind: name };
    for (const field of kinds[name]?.required || []) {
      if (field !== "kind") document[field] = field === "error_code" ? "NOT_LEADER_OR_FOLLOWER" : 1000;
    }
    document.match = name === "error" ? { api_key: "Produce" } : {};
    document.trigger = { times: 1 };
    return JSON.stringify(document, null, 2);
  };
  useEffect(() => setText(starter(kind)), [kind, Object.keys(kinds).length]);
  const submit = (event) => {
    event.preventDefault();
    act("POST", "/v1/faults", text);
  };
  return html`<article><header><h2>Add a fault</h2></header><form onSubmit=${submit}>
    <label>Kind <select name="kind" value=${kind} onChange=${(event) => setKind(event.target.value)}>
      ${Object.keys(kinds).sort().map((name) => html`<option>${name}</option>`)}</select>
      <small>${(kinds[kind]?.description || "").split("\n\n")[0]}</small></label>
    <label>Document <textarea name="document" spellcheck=${false} value=${text}
      onInput=${(event) => setText(event.target.value)} /></label>
    <button type="submit">Add fault</button></form></article>`;
}

function Elections({ elections, act }) {
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    act("POST", "/v1/elections", {
      topic: form.get("topic"),
      partition_index: Number(form.get("partition_index")),
      for_ms: Number(form.get("seconds")) * 1000,
    });
  };
  const rows = elections.map((one) => html`<tr key=${`${one.topic}-${one.partition_index}`}>
    <th scope="row">${one.topic}-${one.partition_index}</th>
    <td>until ${new Date(one.until_us / 1000).toLocaleTimeString()}</td><td>${one.started_by}</td>
    <td><button class="secondary outline" aria-label=${`End the election of ${one.topic}-${one.partition_index}`}
      onClick=${() => act("DELETE",
        `/v1/elections?topic=${encodeURIComponent(one.topic)}&partition_index=${one.partition_index}`)}>End</button>
    </td></tr>`);
  return html`<article><header><h2>Leader elections</h2></header>
    <form onSubmit=${submit}><fieldset role="group">
      <input name="topic" placeholder="topic" aria-label="Topic" required />
      <input name="partition_index" type="number" min="0" value="0" aria-label="Partition" required />
      <input name="seconds" type="number" min="0.1" step="0.1" value="2" aria-label="Seconds without a leader" required />
      <button type="submit">Depose</button></fieldset></form>
    <${Table} label="Elections" head=${["Partition", "Lasts", "Started by", ""]} rows=${rows}
      empty="Every partition has its leader." /></article>`;
}

function Connections({ connections, brokers, act }) {
  const rows = connections.map((one) => {
    const path = `/v1/connections/${one.connection_id}`;
    return html`<tr key=${one.connection_id}>
      <th scope="row">${one.connection_id}</th><td>${one.client_id}</td><td>${one.client_addr}</td>
      <td>${one.listener}</td><td>${one.exchanges}</td>
      <td><button class="secondary outline" aria-label=${`Close connection ${one.connection_id}`}
          onClick=${() => act("DELETE", path)}>Close</button>
        <button class="secondary outline" aria-label=${`Reset connection ${one.connection_id}`}
          onClick=${() => act("DELETE", `${path}?reset=true`)}>Reset</button></td></tr>`;
  });
  const known = brokers.map((one) => html`<tr key=${one.node_id}><th scope="row">${one.node_id}</th>
    <td>${one.host}:${one.port}</td><td>${one.listen_host}:${one.listen_port}</td></tr>`);
  return html`<article><header><h2>Connections</h2></header>
    <${Table} label="Connections" head=${["Nr", "Client", "Address", "Listener", "Exchanges", ""]} rows=${rows}
      empty="No client is connected." /></article>
    <article><header><h2>Brokers</h2></header>
    <${Table} label="Brokers" head=${["Node", "Kafka", "Clients use"]} rows=${known}
      empty="No broker is known yet." /></article>`;
}

function Dashboard() {
  const paths = ["/v1/faults", "/v1/elections", "/v1/connections", "/v1/brokers", "/v1/capture", "/v1/timelines"];
  const [state, look] = usePolled(paths);
  const [kinds, setKinds] = useState({});
  const [problem, setProblem] = useState("");
  const alert = useRef(null);
  useEffect(() => {
    call("GET", "/v1/faults/schema").then((schema) => {
      const of = schema.discriminator.mapping;
      setKinds(Object.fromEntries(Object.entries(of).map(([kind, ref]) => [kind, schema.$defs[ref.split("/").pop()]])));
    }, (error) => setProblem(error.message));
  }, []);
  const act = async (method, path, body) => {
    try {
      await call(method, path, body);
      setProblem("");
    } catch (error) {
      setProblem(error.message);
      alert.current?.focus();
    }
    look();
  };
  const capture = state["/v1/capture"];
  return html`
    <header class="bar"><h1>notleader</h1>
      <span class="status" role="status">${state.reachable
        ? `${capture?.recording ? `recording to ${capture.directory}` : "not recording"}, `
          + `${state["/v1/timelines"]?.running ? "a timeline runs" : "no timeline runs"}`
        : `out of reach: ${state.reason}`}</span></header>
    <p role="alert" tabindex="-1" ref=${alert} class=${problem ? "problem" : ""}>${problem}</p>
    <div class="columns">
      <div class="stack">
        <${Faults} rules=${state["/v1/faults"] || []} act=${act} />
        <${AddFault} kinds=${kinds} act=${act} />
        <${Elections} elections=${state["/v1/elections"] || []} act=${act} />
      </div>
      <div class="stack">
        <${Live} />
        <${Connections} connections=${state["/v1/connections"] || []} brokers=${state["/v1/brokers"] || []}
          act=${act} />
      </div>
    </div>`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${Dashboard} />`, root);
