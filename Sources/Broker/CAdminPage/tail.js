// Publish and tail, over the broker's HTTP listener and with its permissions. The slider is a valve: it sets the credit
// that is maintained. At 0 nothing more is requested, and the subscription appears among the slow ones.

import { $, count, headers, make, readable, refusal, say } from "./kit.js";

const STEPS = [0, 1, 5, 10, 25, 50, 100, 500, 1000];
/// Maximum number of lines in the list.
const LINES = 200;

let http = null;
let stream = null;

/// `origin` is the origin of the broker's HTTP listener; null if it has none.
export const connect = (origin) => {
  http = origin;
  // Browsers do not let pages loaded over TLS use anything without TLS, except on the same machine.
  const isMixed = origin?.startsWith("http:") && location.protocol === "https:";
  say($("try-words"), !origin ? "The broker has no HTTP listener, so this page cannot publish or subscribe."
    : isMixed ? "The broker's HTTP listener has no TLS, so the browser may block this page's requests." : "");
  for (const id of ["tail", "grant-1", "grant-10"]) $(id).disabled = !origin;
  $("publish").querySelector("button").disabled = !origin;
};

const path = (topic) => `${http}/v1/topics/${encodeURIComponent(topic)}/messages`;
const kept = () => STEPS[$("valve").value];

// Publishing

$("publish").addEventListener("submit", async (event) => {
  event.preventDefault();
  const topic = $("topic").value.trim();
  const message = $("message").value;
  let type = "text/plain; charset=utf-8";
  try {
    JSON.parse(message);
    type = "application/json";
  } catch { /* Not JSON, so it is text. */ }
  try {
    const answer = await fetch(path(topic), {
      method: "POST", body: message, headers: headers({ "content-type": type }), signal: AbortSignal.timeout(15000),
    });
    const words = answer.ok ? `published as ${(await answer.json()).sequence}` : await refusal(answer);
    say($("published"), words);
  } catch {
    say($("published"), "no response from the broker's HTTP listener");
  }
});

// Tailing

const lines = [];
let isDrawing = false;

const line = (at, what, name = "what") => {
  lines.push(make("li", {}, make("span", { className: "at", textContent: at }),
    make("span", { className: name }, readable(what))));
  if (lines.length > LINES) lines.splice(0, lines.length - LINES);
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    const list = $("messages");
    const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 30;
    list.append(...lines.splice(0));
    while (list.childElementCount > LINES) list.firstElementChild.remove();
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  });
};

const showFlow = () => {
  say($("flow"), stream
    ? `${stream.received} received, credit ${stream.credit}${stream.dropped ? `, ${stream.dropped} lost` : ""}` : "");
};

/// Requests `n` more messages.
const grant = async (n) => {
  const own = stream;
  if (!own?.id || n < 1) return;
  own.credit += n;
  showFlow();
  const answer = await fetch(`${http}/v1/subscriptions/${own.id}/request?n=${n}`, {
    method: "POST", headers: headers(), signal: AbortSignal.timeout(15000),
  }).catch(() => null);
  if (!answer?.ok) own.credit -= n;
  showFlow();
};

/// Requests more once half of the maintained credit has been used.
const refill = () => {
  if (stream && kept() > 0 && stream.credit <= kept() / 2) grant(kept() - stream.credit);
};

/// The end of the stream, or of one topic of a pattern.
const ending = (record) => {
  const lost = record.dropped ? `, ${count(record.dropped)} lost before its end` : "";
  if (record.topic_end) return `${record.topic_end}: ${record.failure ?? "completed"}${lost}`;
  switch (record.end) {
    case "complete": return `the topic completed${lost}`;
    case "failed": return `${record.message}${lost}`;
    case "draining": return "the broker is shutting down";
    default: return JSON.stringify(record);
  }
};

const take = (own, text) => {
  const record = JSON.parse(text);
  if (record.sequence === undefined) return line("", ending(record), "note");
  own.credit = Math.max(0, own.credit - 1);
  own.received += 1;
  if (record.dropped) {
    own.dropped += record.dropped;
    line("", `${count(record.dropped)} lost here${record.topic ? ` in ${record.topic}` : ""}`, "note");
  }
  const payload = record.payload ?? `(base64) ${record.payload_base64}`;
  line(record.topic ? `${record.topic} ${record.sequence}` : String(record.sequence), payload);
};

const read = async (own, body) => {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const records = (rest + value).split("\n");
    rest = records.pop();
    for (const record of records) if (record) take(own, record);
    if (own === stream) {
      refill();
      showFlow();
    }
  }
};

const start = async () => {
  const first = Math.max(1, kept());
  const own = (stream = { abort: new AbortController(), id: null, credit: first, received: 0, dropped: 0 });
  $("tail").setAttribute("aria-pressed", "true");
  say($("tail"), "Stop");
  $("messages").replaceChildren();
  const query = new URLSearchParams({ request: first, overflow: $("overflow").value });
  if ($("replay").value !== "0") query.set("replay", $("replay").value);
  try {
    const answer = await fetch(`${path($("topic").value.trim())}?${query}`, {
      headers: headers({ accept: "application/x-ndjson" }), signal: own.abort.signal,
    });
    if (!answer.ok) {
      line("", await refusal(answer), "note");
    } else {
      own.id = answer.headers.get("forebay-subscription");
      showFlow();
      await read(own, answer.body);
      line("", "the stream ended", "note");
    }
  } catch (error) {
    if (error.name !== "AbortError") line("", "no response from the broker's HTTP listener", "note");
  }
  if (own === stream) stop();
};

export const stop = () => {
  stream?.abort.abort();
  stream = null;
  $("tail").setAttribute("aria-pressed", "false");
  say($("tail"), "Tail");
  showFlow();
};

$("tail").addEventListener("click", () => (stream ? stop() : start()));
$("topic").addEventListener("change", stop);
$("grant-1").addEventListener("click", () => grant(1));
$("grant-10").addEventListener("click", () => grant(10));

const showValve = () => {
  const words = kept() === 0 ? "none – the valve is shut" : String(kept());
  say($("valve-words"), words);
  $("valve").setAttribute("aria-valuetext", `${words} messages`);
};
$("valve").addEventListener("input", showValve);
$("valve").addEventListener("change", refill);
showValve();
