// /v1, asked once or again and again.
import { useEffect, useRef, useState } from "./vendor/preact-hooks.mjs";

const POLL_MS = 1000;

/** As `fetch`, also where the page's own address has a token in it: a relative path would take that over. */
export const ask = (path, options) => fetch(new URL(path, location.origin), options);

/** The JSON of an answer; an Error with every problem when it was refused. */
export async function call(method, path, body) {
  const options = { method };
  if (body !== undefined) {
    options.body = typeof body === "string" ? body : JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  const answer = await ask(path, options);
  if (!answer.ok) throw new Error(await problem(answer));
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

/** What a problem document says, in lines; the status where the answer is none. */
export async function problem(answer) {
  const text = await answer.text();
  try {
    const { detail, problems = [] } = JSON.parse(text);
    return [detail, ...problems.map((one) => `${one.path || "(document)"}: ${one.message}`)].join("\n");
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}

/** `state` as of the last look at each path, and `look`, which looks again now. */
export function usePolled(paths) {
  const [state, setState] = useState({ reachable: true });
  const asked = useRef(0);
  const shown = useRef(0);
  const look = async () => {
    const mine = ++asked.current;
    // An answer that was overtaken by that to a later question is old news.
    const show = (next) => { if (mine > shown.current) { shown.current = mine; setState(next); } };
    try {
      const found = await Promise.all(paths.map((path) => call("GET", path)));
      show({ reachable: true, ...Object.fromEntries(paths.map((path, i) => [path, found[i]])) });
    } catch (error) {
      show((before) => ({ ...before, reachable: false, reason: error.message }));
    }
  };
  useEffect(() => {
    look();
    const timer = setInterval(() => document.hidden || look(), POLL_MS);
    return () => clearInterval(timer);
  }, []);
  return [state, look];
}

/** What a path answers, asked once; null until it is there. */
export function useOnce(path, fail) {
  const [found, setFound] = useState(null);
  useEffect(() => { call("GET", path).then(setFound, (error) => fail(error.message)); }, []);
  return found;
}
