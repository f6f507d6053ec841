// Who is connected, and which broker is reached through which port.
import { address, html, Small, Table } from "./html.js";

// More letters than these without a hyphen or a space are broken anywhere.
const LONG = /[^\s-]{40}/;

export function Connections({ connections, act }) {
  const rows = connections.map((one) => {
    const path = `/v1/connections/${one.connection_id}`;
    const isLong = LONG.test(one.client_id);
    return html`<tr key=${one.connection_id}>
      <th scope="row" class="number">${one.connection_id}</th>
      <td class=${isLong ? "long" : ""}>${one.client_id}</td><td>${one.client_addr}</td>
      <td>${one.listener}</td><td>${one.exchanges}</td>
      <td class="buttons"><${Small} label=${`Close connection ${one.connection_id}`}
          onClick=${() => act("DELETE", path)}>Close<//>
        <${Small} label=${`Reset connection ${one.connection_id}`}
          onClick=${() => act("DELETE", `${path}?reset=true`)}>Reset<//></td></tr>`;
  });
  return html`<article><header><h2>Connections</h2></header>
    <${Table} folds label="Connections" head=${["Nr", "Client", "Address", "Listener", "Exchanges", ""]} rows=${rows}
      empty="No client is connected." /></article>`;
}

export function Brokers({ brokers }) {
  const rows = brokers.map((one) => html`<tr key=${one.node_id}><th scope="row" class="number">${one.node_id}</th>
    <td>${address(one.host, one.port)}</td><td>${address(one.listen_host, one.listen_port)}</td></tr>`);
  return html`<article><header><h2>Brokers</h2></header>
    <${Table} label="Brokers" head=${["Node", "Kafka", "Clients use"]} rows=${rows}
      empty="No broker is known yet." /></article>`;
}
