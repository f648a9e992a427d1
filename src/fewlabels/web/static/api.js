// Requests to the server that sent this page, and to nobody else.

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const TIMEOUT = 15; // seconds

async function answered(response) {
  if (response.ok) return response.json();
  let text = `The server answered ${response.status}.`;
  try {
    text = response.headers.get("content-type")?.includes("json") ? (await response.json()).error : await response.text();
  } catch {
    // what it said was cut off; its number is enough
  }
  throw new Refused(response.status, text);
}

export async function get(path) {
  return answered(await fetch(path, { signal: AbortSignal.timeout(1000 * TIMEOUT) }));
}

export async function post(path, body = {}, { keepalive = false, seconds = TIMEOUT } = {}) {
  return answered(
    await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-fewlabels": "1" },
      body: JSON.stringify(body),
      keepalive,
      signal: keepalive ? undefined : AbortSignal.timeout(1000 * seconds),
    }),
  );
}

/** Send a file; what to do with it is in the address. */
export async function upload(path, wish, file) {
  return answered(
    await fetch(`${path}?${new URLSearchParams(wish)}`, {
      method: "POST",
      headers: { "content-type": "application/octet-stream", "x-fewlabels": "1" },
      body: file,
      signal: AbortSignal.timeout(4000 * TIMEOUT),
    }),
  );
}

/** Listen to what the server tells, while somebody looks: a browser has few connections. */
export function listen(hear, onLost) {
  let source = null;
  const open = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    const opened = (source = new EventSource("/api/events"));
    opened.onmessage = (event) => hear(JSON.parse(event.data));
    opened.onerror = () => {
      onLost();
      if (opened.readyState === EventSource.CLOSED) setTimeout(open, 1000);
    };
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else open();
  });
  open();
}
