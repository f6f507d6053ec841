// Live exchanges: the last ones as a table, and their rate and latency by second as plots.
import { h } from "./vendor/preact.mjs";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.mjs";
import htm from "./vendor/htm.mjs";

const html = htm.bind(h);
const KEPT_ROWS = 200;
const KEPT_SECONDS = 120;

/** Rows and per-second latencies, filled by the stream and read by the view four times a second. */
class Recent {
  rows = [];
  seconds = new Map();

  add(row) {
    this.rows.unshift(row);
    if (this.rows.length > KEPT_ROWS) this.rows.length = KEPT_ROWS;
    if (row.event !== "exchange") return;
    const second = Math.floor(row.request_at_us / 1e6);
    if (!this.seconds.has(second)) this.seconds.set(second, { count: 0, faulted: 0, latencies: [] });
    const bucket = this.seconds.get(second);
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
    return {
      rate: [times, of((bucket) => bucket?.count || 0), of((bucket) => bucket?.faulted || 0)],
      latency: [times, quantile(0.5), quantile(0.99)],
    };
  }
}

function Plot({ label, data, names }) {
  const place = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--pico-color") || "gray";
    const axis = { stroke: colour, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" } };
    // Points too: a second with a neighbour on neither side would be no line at all.
    const line = (label, stroke) => ({ label, stroke, width: 2, points: { show: true, size: 4 } });
    plot.current = new uPlot({
      width: place.current.clientWidth || 400,
      height: 160,
      cursor: { show: false },
      axes: [axis, { ...axis, size: 60 }],
      series: [{}, line(names[0], "#3b82f6"), line(names[1], "#ef4444")],
    }, data, place.current);
    return () => plot.current.destroy();
  }, []);
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<figure><figcaption>${label}</figcaption><div ref=${place} role="img" aria-label=${label}></div></figure>`;
}

export function Live() {
  const recent = useRef(new Recent());
  const [shown, setShown] = useState({ rows: [], ...recent.current.series() });
  const [wanted, setWanted] = useState("");
  const [paused, setPaused] = useState(false);
  const isPaused = useRef(false);
  isPaused.current = paused;
  useEffect(() => {
    const stream = new EventSource("/v1/exchanges");
    const take = (event) => recent.current.add(JSON.parse(event.data));
    for (const name of ["exchange", "connect", "disconnect", "wire_error"]) stream.addEventListener(name, take);
    const timer = setInterval(() => {
      if (!isPaused.current && !document.hidden) {
        setShown({ rows: [...recent.current.rows], ...recent.current.series() });
      }
    }, 250);
    return () => { stream.close(); clearInterval(timer); };
  }, []);
  const needle = wanted.toLowerCase();
  const text = (row) => [row.event, row.api_name, row.client_id, row.listener, row.outcome, row.error_code,
    ...(row.fault_names || []), ...(row.partitions || []).map((one) => one.topic)].join(" ").toLowerCase();
  const rows = shown.rows.filter((row) => !needle || text(row).includes(needle)).slice(0, 100);
  return html`<article><header><h2>Traffic</h2>
      <button class="secondary outline" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>
        ${paused ? "Go on" : "Pause"}</button></header>
    <${Plot} label="Exchanges a second, and those that a fault touched" names=${["all", "faulted"]} data=${shown.rate} />
    <${Plot} label="Milliseconds from request to response" names=${["p50", "p99"]} data=${shown.latency} />
    <input type="search" placeholder="Show those with this text: an API, topic, client, fault…"
      aria-label="Show exchanges with this text" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
    <div class="scroll" tabindex="0" role="region" aria-label="Exchanges">
      <table><thead><tr>${["Time", "What", "Client", "Topics", "Outcome", "ms", "Faults"]
        .map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${`${row.connection_id}/${row.event}/${row.exchange_seq}`}>
        <td>${new Date(row.request_at_us / 1000).toLocaleTimeString()}</td>
        <td>${row.event === "exchange" ? row.api_name : row.event}</td><td>${row.client_id}</td>
        <td>${[...new Set((row.partitions || []).map((one) => one.topic))].join(", ")}</td>
        <td>${row.outcome}${row.error_code ? ` (${row.error_code})` : ""}</td>
        <td>${row.response_at_us ? ((row.response_at_us - row.request_at_us) / 1000).toFixed(1) : ""}</td>
        <td class="hit">${(row.fault_names || []).join(", ")}</td></tr>`)}</tbody></table></div></article>`;
}
