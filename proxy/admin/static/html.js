// Preact with htm, and the few pieces that several parts of the page share.
import { h } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";
import { ERRORS } from "./errors.js";

export const html = htm.bind(h);

/** `key=value key=a,b` of an object, without what is null. */
export const short = (value) =>
  Object.entries(value || {}).filter(([, item]) => item !== null)
    .map(([key, item]) => `${key}=${typeof item === "object" && !Array.isArray(item) ? JSON.stringify(item) : item}`)
    .join(" ");

/** `host:port`, an IPv6 address in brackets. */
export const address = (host, port) => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** A table; one that `folds` gives each row several lines where the page is narrow. */
export function Table({ label, head, rows, empty, folds }) {
  if (!rows.length) return html`<p class="muted">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table class=${folds ? "folds" : ""}><thead><tr>${head.map((name) => (name ? html`<th scope="col">${name}</th>` : html`<td></td>`))}</tr></thead>
    <tbody>${rows}</tbody></table></div>`;
}

export const Small = ({ label, children, ...rest }) =>
  html`<button type="button" class="secondary outline small" aria-label=${label} ...${rest}>${children}</button>`;

/** So many of something. */
export const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Text whose `words in backticks` are code. */
export const Prose = ({ text }) => text.split("`").map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));

/** An error code as Kafka names it. */
export const errorName = (code) => ERRORS[code] ?? `error ${code}`;
