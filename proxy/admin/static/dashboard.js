// The dashboard: a view of /v1, redrawn from what the API says; it keeps no truth of its own.
import { render } from "./vendor/preact.mjs";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.mjs";
import { call, usePolled } from "./api.js";
import { Capture } from "./capture.js";
import { AddFault, Faults } from "./faults.js";
import { html } from "./html.js";
import { Elections, Incidents } from "./incidents.js";
import { Live } from "./live.js";
import { Brokers, Connections } from "./network.js";

const PATHS = ["/v1/faults", "/v1/elections", "/v1/connections", "/v1/brokers", "/v1/capture", "/v1/timelines"];

function Dashboard() {
  const [state, look] = usePolled(PATHS);
  const [faults, elections, connections, brokers, capture, timeline] = PATHS.map((path) => state[path]);
  const [problem, setProblem] = useState("");
  const alert = useRef(null);
  const act = async (method, path, body) => {
    try {
      await call(method, path, body);
      setProblem("");
      return true;
    } catch (error) {
      setProblem(error.message);
      alert.current?.focus();
      return false;
    } finally {
      await look();
    }
  };
  useEffect(() => {
    document.title = state.reachable ? "notleader" : "✗ gone: notleader";
    document.body.classList.toggle("gone", !state.reachable);
  }, [state.reachable]);
  const status = state.reachable
    ? `${capture?.recording ? `recording to ${capture.directory}` : "not recording"}, `
      + `${timeline?.running ? "a timeline runs" : "no timeline runs"}`
    : "out of reach";
  return html`
    <header class="bar"><h1>notleader</h1><span class="status" role="status">${status}</span></header>
    ${!state.reachable && html`<div class="lost" role="alert"><strong>The proxy is gone.</strong> What is grey below is
      what it said last. ${state.reason}</div>`}
    <p role="alert" tabindex="-1" ref=${alert} class=${problem ? "problem" : ""}>${problem}</p>
    <div class="columns">
      <div class="stack">
        <${Faults} rules=${faults || []} act=${act} />
        <${AddFault} act=${act} fail=${setProblem} />
        <${Incidents} timeline=${timeline} act=${act} fail=${setProblem} />
        <${Elections} elections=${elections || []} act=${act} />
      </div>
      <div class="stack">
        <${Live} />
        <${Capture} capture=${capture} act=${act} />
        <${Connections} connections=${connections || []} act=${act} />
        <${Brokers} brokers=${brokers || []} />
      </div>
    </div>`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${Dashboard} />`, root);
