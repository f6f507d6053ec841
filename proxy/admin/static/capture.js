// The recording: where to, how much of each exchange, and how it does.
import { html, many, Small } from "./html.js";

const LEVELS = ["header", "partition", "record", "payload"];

export function Capture({ capture, act }) {
  const command = (action, more) => act("POST", "/v1/capture", { action, ...more });
  const heading = html`<header><h2>Recording</h2></header>`;
  if (!capture?.recording) {
    const start = (event) => {
      event.preventDefault();
      const form = new FormData(event.target);
      command("start", { directory: form.get("directory"), level: form.get("level") });
    };
    return html`<article>${heading}<form key="start" class="line" onSubmit=${start}>
      <label>Folder <input name="directory" placeholder=${capture?.roots?.[0] ?? "capture"} required /></label>
      <label>Level <select name="level" value="partition">
        ${LEVELS.map((level) => html`<option key=${level}>${level}</option>`)}</select></label>
      <button type="submit">Record</button></form>
      <small>${capture?.roots?.length ? html`Below ${capture.roots.map((root, i) => html`${i ? ", " : ""}<code>${root}</code>`)}.`
        : html`The proxy was started without <code>--capture</code> and <code>--capture-root</code>: it may write nowhere.`}</small></article>`;
  }
  const mark = (event) => {
    event.preventDefault();
    command("mark", { label: new FormData(event.target).get("label") });
    event.target.reset();
  };
  return html`<article>${heading}
    <p>To <code>${capture.directory}</code> at level ${capture.level}: ${many(capture.written_rows, "row")} written,${" "}
      ${capture.queued_rows} waiting,${" "}<span class=${capture.lost_rows ? "hit" : ""}>${capture.lost_rows} lost</span>,${" "}
      ${many(capture.segments, "segment")}.</p>
    ${capture.error && html`<p class="problem">${capture.error}</p>`}
    <form key="mark" class="line" onSubmit=${mark}><label>Mark this moment <input name="label" required /></label>
      <button type="submit" class="secondary">Mark</button></form>
    <div class="buttons"><${Small} onClick=${() => command("rotate")}>Finish the segment<//>
      <${Small} onClick=${() => command("stop")}>Stop recording<//></div></article>`;
}
