// Requests to the server that sent this page, and to nobody else.

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

const TIMEOUT = 15; // seconds

async function request(path, { seconds = TIMEOUT, ...options } = {}) {
  const response = await fetch(path, { signal: options.keepalive ? undefined : AbortSignal.timeout(1000 * seconds), ...options });
  if (response.ok) return response.json();
  let text = `The server answered ${response.status}.`;
  try {
    text = response.headers.get("content-type")?.includes("json") ? (await response.json()).error : await response.text();
  } catch {
    // what it said was cut off; its number is enough
  }
  throw new Refused(response.status, text);
}

const headers = (type) => ({ "content-type": type, "x-fewlabels": "1" });

export const get = (path, seconds) => request(path, { seconds });

export const post = (path, body = {}, options = {}) => request(path, { method: "POST", headers: headers("application/json"), body: JSON.stringify(body), ...options });

/** Send a file; what to do with it is in the address. */
export const upload = (path, wish, file) => request(`${path}?${new URLSearchParams(wish)}`, { method: "POST", headers: headers("application/octet-stream"), body: file, seconds: 4 * TIMEOUT });

/** Listen to the states that the server sends while the page is visible: a browser has few connections. */
export function listen(onState, onLost) {
  let source = null;
  const open = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    const opened = (source = new EventSource("/api/events"));
    opened.onmessage = (event) => onState(JSON.parse(event.data));
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
