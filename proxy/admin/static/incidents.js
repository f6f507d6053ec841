// Incidents to start, the timeline that runs, and whom the proxy says leads no more.
import { useState } from "./vendor/preact-hooks.mjs";
import { useOnce } from "./api.js";
import { html, Prose, Small, Table } from "./html.js";

/** What happened to others, as a timeline to run here: as it is, or with other topics and clients. */
export function Incidents({ timeline, act, fail }) {
  const incidents = useOnce("/v1/incidents", fail);
  const [name, setName] = useState(null);
  const [written, setWritten] = useState({});
  const heading = html`<header><h2>Incidents</h2></header>`;
  if (!incidents) return html`<article>${heading}<p aria-busy="true">Loading the incidents…</p></article>`;
  const chosen = incidents.find((one) => one.name === name) || incidents[0];
  const text = written[chosen.name] ?? JSON.stringify({ steps: chosen.steps }, null, 2);
  const submit = (event) => {
    event.preventDefault();
    act("POST", "/v1/timelines", text);
  };
  return html`<article>${heading}<form onSubmit=${submit}>
    <label>Incident <select name="incident" aria-describedby="incident" value=${chosen.name}
      onChange=${(event) => setName(event.target.value)}>
      ${incidents.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}: ${one.title}</option>`)}
      </select></label>
    <small id="incident"><${Prose} text=${chosen.story} />
        ${chosen.links.map((link, i) => html`${" "}<a key=${link} href=${link} rel="noreferrer">Told at ${new URL(link).host}${i ? ` (${i + 1})` : ""}</a>`)}</small>
    <details><summary>Its steps: name your own topics and clients here</summary>
      <textarea name="steps" rows="12" aria-label="Steps" spellcheck=${false} value=${text}
        onInput=${(event) => setWritten({ ...written, [chosen.name]: event.target.value })} /></details>
    <button type="submit">Start the incident</button></form>
    <${Timeline} timeline=${timeline} act=${act} /></article>`;
}

function Timeline({ timeline, act }) {
  const rows = (timeline?.timeline || []).map((step, i) => html`<tr key=${i}>
    <td>${step.when}</td><td>${step.what}</td><td>${step.done ? "done" : "to come"}</td></tr>`);
  return html`<section><div class="bar"><h3>Timeline</h3>
    <${Small} disabled=${!timeline?.running} label="Stop the timeline"
      onClick=${() => act("DELETE", "/v1/timelines")}>Stop<//></div>
    <${Table} label="Timeline" head=${["When", "What", ""]} rows=${rows} empty="None has been started." /></section>`;
}

export function Elections({ elections, act }) {
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    act("POST", "/v1/elections", {
      topic: form.get("topic"),
      partition_index: Number(form.get("partition_index")),
      for_ms: Number(form.get("seconds")) * 1000,
    });
  };
  const rows = elections.map((one) => {
    const partition = `${one.topic}-${one.partition_index}`;
    const path = `/v1/elections?topic=${encodeURIComponent(one.topic)}&partition_index=${one.partition_index}`;
    return html`<tr key=${`${partition}/${one.leader_id}`}><th scope="row">${partition}</th>
      <td>${one.leader_id ?? "nobody"}</td>
      <td>${one.until_us ? new Date(one.until_us / 1000).toLocaleTimeString() : "ended"}</td><td>${one.started_by}</td>
      <td><${Small} label=${`End the election of ${partition}`} onClick=${() => act("DELETE", path)}>End<//></td></tr>`;
  });
  return html`<article><header><h2>Leader elections</h2></header>
    <form onSubmit=${submit} class="line">
      <label>Topic <input name="topic" required /></label>
      <label>Partition <input name="partition_index" type="number" min="0" value="0" required /></label>
      <label>Seconds without a leader
        <input name="seconds" type="number" min="0.1" step="0.1" value="2" required /></label>
      <button type="submit">Depose</button></form>
    <${Table} folds label="Elections" head=${["Partition", "Shown to lead", "Until", "Started by", ""]} rows=${rows}
      empty="Every partition has its leader." /></article>`;
}
