// Live exchanges: the last ones as a table, and their rate and latency by second as plots.
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-hooks.mjs";
import { ask, problem } from "./api.js";
import { Exchange, keyOf, linked } from "./exchange.js";
import { errorName, html, Small } from "./html.js";

const KEPT_ROWS = 2000;
const SHOWN_ROWS = 100;
const MOST_RULES = 8;
const KEPT_SECONDS = 120;

/** Rows and per-second latencies, filled by the stream and read by the view four times a second. */
class Recent {
  rows = [];
  keys = new Set(); // the stream begins anew by itself after a break, with what was before
  seconds = new Map();
  since = Math.floor(Date.now() / 1000); // nothing is known of the seconds before

  add(row) {
    if (this.keys.has(keyOf(row))) {
      const known = this.rows.findIndex((one) => keyOf(one) === keyOf(row)); // remembered, and now with its frames
      if (row.request_frame && known >= 0) this.rows[known] = row;
      return;
    }
    this.keys.add(keyOf(row));
    this.rows.unshift(row);
    if (this.rows.length > KEPT_ROWS) this.keys.delete(keyOf(this.rows.pop()));
    if (row.event !== "exchange") return;
    const second = Math.floor(row.request_at_us / 1e6);
    if (!this.seconds.has(second)) this.seconds.set(second, { count: 0, faulted: 0, latencies: [], rules: new Map() });
    const bucket = this.seconds.get(second);
    for (const name of row.fault_names || []) bucket.rules.set(name, (bucket.rules.get(name) || 0) + 1);
    if (second < this.since) return; // not all of that second's rows are still at hand: no rate, no latency
    bucket.count += 1;
    if (row.fault_names?.length) bucket.faulted += 1;
    if (row.response_at_us && bucket.latencies.length < 2000) {
      bucket.latencies.push((row.response_at_us - row.request_at_us) / 1000);
    }
  }

  series() {
    const now = Math.floor(Date.now() / 1000);
    const times = Array.from({ length: KEPT_SECONDS }, (_, i) => now - KEPT_SECONDS + i);
    for (const second of this.seconds.keys()) if (second < times[0]) this.seconds.delete(second);
    const of = (read) => times.map((second) => read(this.seconds.get(second)));
    const quantile = (share) => of((bucket) => {
      if (!bucket?.latencies.length) return null;
      const sorted = [...bucket.latencies].sort((a, b) => a - b);
      return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    });
    const count = (name) => times.map((second) => second < this.since ? null : this.seconds.get(second)?.[name] ?? 0);
    return {
      rate: [times, count("count"), count("faulted")],
      latency: [times, quantile(0.5), quantile(0.99)],
      strikes: this.strikes(times[0]),
    };
  }
}

/** Rules with the seconds in which they struck, the latest first: [name, [[seconds since `from`, hits], …]]. */
Recent.prototype.strikes = function strikes(from) {
  const found = new Map();
  for (const [second, bucket] of this.seconds) {
    for (const [name, hits] of bucket.rules) {
      if (!found.has(name)) found.set(name, []);
      found.get(name).push([second - from, hits]);
    }
  }
  const latest = ([, struck]) => Math.max(...struck.map(([at]) => at));
  return [...found].sort((a, b) => latest(b) - latest(a)).slice(0, MOST_RULES);
};

/** When each rule struck, on the time axis of the plots above. */
function Strikes({ strikes }) {
  if (!strikes.length) return null;
  return html`<figure class="strikes"><figcaption>When each rule struck</figcaption>
    ${strikes.map(([name, struck]) => html`<div class="strike" key=${name}><span title=${name}>${name}</span>
      <svg viewBox=${`0 0 ${KEPT_SECONDS} 8`} preserveAspectRatio="none" role="img"
        aria-label=${`${name}: ${struck.reduce((sum, [, hits]) => sum + hits, 0)} hits in the last two minutes`}>
        ${struck.map(([at]) => html`<rect key=${at} x=${at} y="0" width="1" height="8" />`)}</svg></div>`)}</figure>`;
}

/** A cell that no spreadsheet takes for a formula. */
const cell = (value) => {
  const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return `"${(/^[=+\-@\t\r]/.test(text) && typeof value === "string" ? `'${text}` : text).replaceAll('"', '""')}"`;
};

/** A cell whose text may be long: the columns behind it stay in sight, and the whole is its tooltip. */
const cut = (text) => html`<td class="cut" title=${text}>${text}</td>`;

/** Give what is shown to the person, as a file. */
function download(rows, format) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const text = format === "csv"
    ? [names.map(cell).join(","), ...rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\r\n")
    : rows.map((row) => JSON.stringify(row)).join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${text}\n`], { type: format === "csv" ? "text/csv" : "application/x-ndjson" }));
  link.download = `exchanges.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Whether a series has a value with a neighbour on neither side: without points it would be no line at all. */
const isolated = (plot, series) => {
  const values = plot.data[series];
  return values.some((value, i) => value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null);
};

function Plot({ label, data, names }) {
  const place = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    // Asked anew for each drawing: the system may go dark meanwhile.
    const stroke = () => getComputedStyle(document.documentElement).getPropertyValue("--pico-color") || "gray";
    const axis = { stroke, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" } };
    const clock = (_, seconds) => seconds.map((at) => new Date(at * 1000).toLocaleTimeString());
    const line = (label, stroke) => ({ label, stroke, width: 2, points: { show: isolated, size: 4 } });
    const size = () => ({ width: place.current.clientWidth || 400, height: 160 });
    plot.current = new uPlot({
      ...size(),
      cursor: { show: false },
      legend: { live: false },
      axes: [{ ...axis, values: clock, space: 90 }, { ...axis, size: 60 }],
      series: [{}, line(names[0], "#3b82f6"), line(names[1], "#ef4444")],
    }, data, place.current);
    const watching = new ResizeObserver(() => plot.current.setSize(size()));
    watching.observe(place.current);
    return () => { watching.disconnect(); plot.current.destroy(); };
  }, []);
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<figure><figcaption>${label}</figcaption><div ref=${place} role="img" aria-label=${label}></div></figure>`;
}

const EVENTS = ["exchange", "connect", "disconnect", "wire_error", "fault", "mark", "gap"];

/** What keeps exchanges with this filter from being read, or nothing: an EventSource doesn't say why it was refused. */
async function whyRefused(filter) {
  const asked = new AbortController();
  try {
    const answer = await ask(`/v1/exchanges?filter=${encodeURIComponent(filter)}`, { signal: asked.signal });
    return answer.ok ? "" : await problem(answer);
  } finally {
    asked.abort();
  }
}

export function Live() {
  const recent = useRef(new Recent());
  const [shown, setShown] = useState({ rows: [], ...recent.current.series() });
  const [filter, setFilter] = useState("");
  const [refusal, setRefusal] = useState("");
  const [paused, setPaused] = useState(false);
  const [opened, open] = useState(linked);
  const [at, go] = useState(null); // the row that the keyboard is at
  const [help, setHelp] = useState(false);
  const isPaused = useRef(false);
  isPaused.current = paused;
  const search = useRef(null);
  useEffect(() => {
    const follow = () => linked() && open(linked());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  // As in mitmweb: the letters act while nothing is being typed. Each meets what the one before it left, however quick.
  useLayoutEffect(() => {
    const rows = shown.rows.slice(0, SHOWN_ROWS);
    const move = (step) => {
      const now = rows.findIndex((row) => keyOf(row) === at);
      const next = rows[Math.min(Math.max(now + step, 0), rows.length - 1)];
      if (!next) return;
      setPaused(true); // what one walks through must hold still
      go(keyOf(next));
      if (opened) open(next);
      document.getElementById(`row-${keyOf(next)}`)?.scrollIntoView({ block: "nearest" });
    };
    const actions = {
      j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
      Enter: () => { const row = rows.find((one) => keyOf(one) === at); if (row) open(row); },
      Escape: () => { open(null); setHelp(false); },
      p: () => setPaused((before) => !before),
      z: () => { recent.current.rows = []; setShown({ ...shown, rows: [] }); },
      "/": () => search.current?.focus(),
      "?": () => setHelp((before) => !before),
    };
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
      const typing = event.target.closest("input, select, textarea, button, a, summary");
      if (typing && event.key !== "Escape") return;
      if (["ArrowDown", "ArrowUp"].includes(event.key) && at === null) return; // the page scrolls, as ever
      event.preventDefault();
      actions[event.key]();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  useEffect(() => {
    recent.current = new Recent();
    const take = (event) => recent.current.add(JSON.parse(event.data));
    // A browser keeps six connections to a host: a tab that nobody sees holds none.
    let stream = null;
    const read = () => {
      stream?.close();
      if (document.hidden) return;
      recent.current.since = Math.floor(Date.now() / 1000);
      stream = new EventSource(`/v1/exchanges?before=${SHOWN_ROWS}&filter=${encodeURIComponent(filter)}`);
      for (const name of EVENTS) stream.addEventListener(name, take);
      // Refused for good, as one reader too many is.
      stream.onerror = async () => {
        if (stream.readyState !== EventSource.CLOSED) return;
        const said = await whyRefused(filter).catch(() => "");
        if (said) setRefusal(said);
      };
      stream.onopen = () => setRefusal("");
    };
    read();
    document.addEventListener("visibilitychange", read);
    const show = () => setShown({ rows: [...recent.current.rows], ...recent.current.series() });
    const timer = setInterval(() => isPaused.current || document.hidden || show(), 250);
    show();
    return () => { document.removeEventListener("visibilitychange", read); stream?.close(); clearInterval(timer); };
  }, [filter]);
  const submit = async (event) => {
    event.preventDefault();
    const wanted = new FormData(event.target).get("filter");
    try {
      const said = await whyRefused(wanted);
      setRefusal(said.split("\n").slice(0, -1).join("\n"));
      if (!said) { setFilter(wanted); go(null); }
    } catch (error) {
      setRefusal(error.message);
    }
  };
  return html`<article><header><h2>Traffic</h2><span class="buttons">
      <${Small} disabled=${!shown.rows.length} onClick=${() => download(shown.rows, "jsonl")}>Export JSON lines<//>
      <${Small} disabled=${!shown.rows.length} onClick=${() => download(shown.rows, "csv")}>Export CSV<//>
      <${Small} label="Keys" aria-expanded=${help} onClick=${() => setHelp(!help)}>?<//>
      <${Small} aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? "Go on" : "Pause"}<//></span></header>
    ${help && html`<p role="note"><kbd>j</kbd> <kbd>k</kbd> down, up · <kbd>Enter</kbd> open · <kbd>Esc</kbd> close ·${" "}
      <kbd>p</kbd> pause · <kbd>z</kbd> clear · <kbd>/</kbd> filter · <kbd>?</kbd> this</p>`}
    <${Plot} label="Exchanges a second, and those that a fault touched" names=${["all", "faulted"]} data=${shown.rate} />
    <${Strikes} strikes=${shown.strikes} />
    <${Plot} label="Milliseconds from request to response" names=${["p50", "p99"]} data=${shown.latency} />
    <form class="line" onSubmit=${submit}>
      <label>Filter <input name="filter" type="search" ref=${search} spellcheck=${false} aria-invalid=${refusal ? "true" : null}
        placeholder="api == Produce and error != 0" /></label>
      <button type="submit" class="secondary">Show</button></form>
    ${refusal && html`<pre class="problem" role="alert">${refusal}</pre>`}
    ${filter && html`<p class="muted">Plots and rows: <code>${filter}</code>.</p>`}
    ${opened && html`<${Exchange} row=${opened} close=${() => open(null)} />`}
    <div class="scroll" tabindex="0" role="region" aria-label="Exchanges">
      <table class="folds"><thead><tr>${["Time", "What", "Client", "Topics", "Outcome", "ms", "Faults"]
        .map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${shown.rows.slice(0, SHOWN_ROWS).map((row) => html`
        <tr key=${keyOf(row)} id=${`row-${keyOf(row)}`} class=${`row${keyOf(row) === at ? " at" : ""}`}
          onClick=${() => { go(keyOf(row)); open(row); }}>
        <td class="time"><button type="button" class="plain" aria-label=${`Open ${row.api_name ?? row.event} at
          ${new Date(row.request_at_us / 1000).toLocaleTimeString()}`}>${new Date(row.request_at_us / 1000).toLocaleTimeString()}</button></td>
        <td>${row.event === "exchange" ? row.api_name : row.event}</td>${cut(row.client_id)}
        ${cut([...new Set((row.partitions || []).map((one) => one.topic))].join(", "))}
        <td>${row.outcome}${row.error_code ? ` (${errorName(row.error_code)})` : ""}</td>
        <td>${row.response_at_us ? ((row.response_at_us - row.request_at_us) / 1000).toFixed(1) : ""}</td>
        <td class="hit">${(row.fault_names || []).join(", ")}</td></tr>`)}</tbody></table></div>
    ${!shown.rows.length && !refusal && html`<p class="muted">No request has come.</p>`}</article>`;
}
