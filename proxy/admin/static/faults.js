// The rules in force with their switches, and the form that adds one.
import { useState } from "./vendor/preact-hooks.mjs";
import { useOnce } from "./api.js";
import { html, Prose, short, Small, Table } from "./html.js";

const path = (rule) => `/v1/faults/${encodeURIComponent(rule.name)}`;
const stateOf = (rule) =>
  !rule.enabled ? "off" : rule.released ? "released" : rule.exhausted ? "spent" : "active";

// Shows what was asked for until the proxy has answered: a look at the faults meanwhile must not turn it back.
function Switch({ rule, act }) {
  const [wanted, want] = useState(null);
  const turn = async (enabled) => {
    want(enabled);
    await act("PATCH", path(rule), { enabled });
    want(null);
  };
  return html`<input type="checkbox" role="switch" aria-label=${`Enable ${rule.name}`}
    checked=${wanted ?? rule.enabled} onChange=${(event) => turn(event.target.checked)} />`;
}

/** What a person may change of a rule: its document, without what the proxy counts. */
const documentOf = ({ hits, refused, enabled, exhausted, released, ...document }) =>
  Object.fromEntries(Object.entries(document).filter(([, value]) => value !== null));

function Edit({ rule, act, close }) {
  const [text, write] = useState(JSON.stringify(documentOf(rule), null, 2));
  const save = async (event) => {
    event.preventDefault();
    if (await act("PUT", path(rule), text)) close();
  };
  return html`<tr><td colspan="6"><form onSubmit=${save}>
    <label>Document of ${rule.name} <textarea rows=${Math.min(text.split("\n").length + 1, 16)} spellcheck=${false}
      value=${text} onInput=${(event) => write(event.target.value)} /></label>
    <div class="buttons"><button type="submit">Save</button><${Small} onClick=${close}>Leave it<//>
      <small>A saved rule begins again: its counters are at zero.</small></div></form></td></tr>`;
}

export function Faults({ rules, act }) {
  const [edited, edit] = useState(null);
  const rows = rules.flatMap((rule) => [html`<tr key=${rule.name}>
    <td><${Switch} rule=${rule} act=${act} /></td>
    <th scope="row">${rule.name}<div class="muted">${rule.kind}</div></th>
    <td><code>${short(rule.match) || "all"}</code><div class="muted"><code>${short(rule.trigger) || "times=1"}</code></div></td>
    <td class=${rule.hits ? "hit" : ""}>${rule.hits}</td><td>${stateOf(rule)}</td>
    <td class="buttons">
      ${rule.kind === "stall" && html`<${Small} label=${`Release ${rule.name}`}
        onClick=${() => act("POST", `${path(rule)}/release`)}>Release<//>`}
      <${Small} label=${`Edit ${rule.name}`} aria-expanded=${edited === rule.name}
        onClick=${() => edit(edited === rule.name ? null : rule.name)}>Edit<//>
      <${Small} label=${`Remove ${rule.name}`} onClick=${() => act("DELETE", path(rule))}>Remove<//>
    </td></tr>`,
    edited === rule.name && html`<${Edit} key=${`${rule.name} edited`} rule=${rule} act=${act} close=${() => edit(null)} />`]);
  return html`<article><header><h2>Faults</h2>
    <${Small} disabled=${!rules.length} onClick=${() => act("DELETE", "/v1/faults")}>Remove all<//></header>
    <${Table} folds label="Faults" head=${["On", "Rule", "Match and trigger", "Hits", "State", ""]} rows=${rows}
      empty="No faults: the proxy tells the truth." /></article>`;
}

/** A value that a field of the schema takes: a first guess for people to change. */
function sample(field, defs) {
  if (field.examples) return field.examples[0];
  if (field.$ref) return sample(defs[field.$ref.split("/").pop()], defs);
  if (field.default !== undefined && field.default !== null) return field.default;
  const options = field.anyOf || field.oneOf;
  if (options) return sample(options[0], defs);
  if (field.enum) return field.enum.includes("NOT_LEADER_OR_FOLLOWER") ? "NOT_LEADER_OR_FOLLOWER" : field.enum[0];
  if (field.const !== undefined) return field.const;
  if (field.type === "integer" || field.type === "number") return Math.min(1000, field.maximum ?? 1000);
  if (field.type === "array") return [sample(field.items || {}, defs)];
  if (field.type === "boolean") return true;
  return field.type === "object" ? {} : "";
}

/** A document of this kind that says the least it has to. */
function starter(schema, kind) {
  const model = schema.$defs[schema.discriminator.mapping[kind].split("/").pop()];
  const document = { kind };
  for (const name of model.required || []) {
    if (name !== "kind") document[name] = sample(model.properties[name], schema.$defs);
  }
  document.match = kind === "error" ? { api_key: "Produce" } : {};
  return JSON.stringify(document, null, 2);
}

/** The form is there once the kinds are known: nothing that is typed can be overtaken by their arrival. */
export function AddFault({ act, fail }) {
  const schema = useOnce("/v1/faults/schema", fail);
  const [kind, setKind] = useState("error");
  const [written, setWritten] = useState({}); // by kind: what a person typed stays theirs
  const heading = html`<header><h2>Add a fault</h2></header>`;
  if (!schema) return html`<article>${heading}<p aria-busy="true">Loading the kinds…</p></article>`;
  const text = written[kind] ?? starter(schema, kind);
  const model = schema.$defs[schema.discriminator.mapping[kind].split("/").pop()];
  const submit = (event) => {
    event.preventDefault();
    act("POST", "/v1/faults", text);
  };
  return html`<article>${heading}<form onSubmit=${submit}>
    <label>Kind <select name="kind" aria-describedby="kind" value=${kind} onChange=${(event) => setKind(event.target.value)}>
      ${Object.keys(schema.discriminator.mapping).sort().map((name) => html`<option key=${name}>${name}</option>`)}
      </select></label>
    <small id="kind"><${Prose} text=${(model.description || "").split("\n\n")[0]} /></small>
    <label>Document <textarea name="document" rows="7" spellcheck=${false} value=${text}
      onInput=${(event) => setWritten({ ...written, [kind]: event.target.value })} /></label>
    <div class="buttons"><button type="submit">Add fault</button>
      ${written[kind] !== undefined && html`<${Small} onClick=${() => setWritten({ ...written, [kind]: undefined })}>
        Start over<//>`}</div></form></article>`;
}
