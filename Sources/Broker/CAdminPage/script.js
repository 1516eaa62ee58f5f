// The core of the page: fetches a snapshot of the broker every second and shows it.

import {
  $, api, bytes, count, forgetWho, here, make, rate, remember, say, signIn, signedIn, sparkline, time,
} from "./kit.js";
import { query, showSubscriptions, showTopics, watch } from "./tables.js";
import { connect, stop } from "./tail.js";

/// Milliseconds between two snapshots.
const INTERVAL = 1000;

// Tiles

const tiles = {};
for (const [key, name] of [
  ["published", "Published / s"], ["delivered", "Delivered / s"], ["dropped", "Lost / s"], ["slow", "Slow"],
  ["blocked", "Blocked"], ["connections", "Connections"], ["memory", "Memory"],
  ["store", "Store"], ["upstream", "NATS"],
]) {
  const value = make("span", { className: "value", textContent: "–" });
  const note = make("span", { className: "note" });
  const spark = sparkline();
  const element = make("div", { className: "tile" }, make("span", { className: "name", textContent: name }), value,
    note, spark.svg);
  tiles[key] = { value, note, spark, element, history: [] };
  $("tiles").append(element);
}
// Shown only if there is a store, or NATS servers.
tiles.store.element.hidden = true;
tiles.upstream.element.hidden = true;

const tell = (key, figure, text, note = "", kind = "") => {
  const tile = tiles[key];
  remember(tile.history, figure);
  tile.spark.draw(tile.history);
  say(tile.value, text);
  say(tile.note, note);
  tile.element.className = `tile ${kind}`;
};

let last = null;

/// Messages dropped for subscriptions, except under the policy `latest`.
const droppedUnasked = (stats) => stats.dropped - stats.dropped_by_policy.latest;

const showTiles = (stats) => {
  const { slow } = stats;
  const seconds = last ? (stats.time_ns - last.time_ns) / 1e9 : 0;
  const per = (name) => (seconds > 0 ? Math.max(0, stats[name] - last[name]) / seconds : 0);
  tell("published", per("published"), rate(per("published")), `${count(stats.published)} in total`);
  tell("delivered", per("delivered"), rate(per("delivered")), `${count(stats.delivered)} in total`);
  const unasked = seconds > 0 ? Math.max(0, droppedUnasked(stats) - droppedUnasked(last)) / seconds : 0;
  const dropped = unasked + per("lost_total");
  tell("dropped", dropped, rate(dropped),
    `${count(droppedUnasked(stats))} messages, ${count(stats.lost_total)} publishes`, dropped > 0 ? "bad" : "");
  tell("slow", slow, count(slow), `of ${count(stats.subscriptions)} subscriptions`
    + (stats.pattern_subscriptions > 0 ? `, ${count(stats.pattern_subscriptions)} to patterns` : ""),
    slow > 0 ? "alert" : "");
  tell("blocked", stats.publishers_blocked, count(stats.publishers_blocked),
    `of ${count(stats.publishers)}, ${count(stats.parked)} parked`
      + (stats.publishers_blocked_by_store > 0 ? `, ${count(stats.publishers_blocked_by_store)} by the store` : ""), stats.publishers_blocked > 0 ? "alert" : "");
  tell("connections", stats.connections, count(stats.connections), `up ${time(stats.uptime_ms)}`);
  const share = stats.memory / stats.memory_limit;
  tell("memory", stats.memory, bytes(stats.memory), `of ${bytes(stats.memory_limit)}`, share > 0.9 ? "bad" : "");
  tiles.store.element.hidden = !stats.store;
  if (stats.store) showStore(stats.store);
  tiles.upstream.element.hidden = !stats.upstream;
  if (stats.upstream) showUpstream(stats.upstream);
  last = stats;
};

const showStore = (store) => {
  const note = store.failed ? "failed" : store.full ? "full"
    : store.uncommitted_bytes > 0 ? `of ${bytes(store.bytes_limit)}, ${bytes(store.uncommitted_bytes)} to write`
      : `of ${bytes(store.bytes_limit)}`;
  tell("store", store.bytes, bytes(store.bytes), note, store.failed || isNearlyFull(store) ? "bad" : "");
};

const isNearlyFull = (store) => store.full || store.bytes > 0.9 * store.bytes_limit;

/// The curve shows what this node lags behind: messages to read, and publishes to acknowledge.
const showUpstream = (upstream) => {
  const { connected, unread, publishes_waiting: waiting } = upstream;
  const notes = [`for ${time(upstream.since_ms)}`, `${count(upstream.topics)} ${upstream.topics === 1 ? "topic" : "topics"}`];
  if (connected) notes.unshift(upstream.server.replace(/^nats:\/\//, ""));
  if (unread > 0) notes.push(`${count(unread)} messages to read`);
  if (waiting > 0) notes.push(`${count(waiting)} publishes wait`);
  if (upstream.lost > 0) notes.push(`${count(upstream.lost)} messages lost`);
  tell("upstream", unread + waiting, connected ? "up" : "down", notes.join(", "),
    upstream.unavailable ? "bad" : connected ? "" : "alert");
};

const upstreamWords = ({ since_ms: since, cause }) =>
  `not connected to NATS for ${time(since)}${cause ? `: ${cause}` : ""}`;

const health = (kind, words) => {
  $("health").className = `pill ${kind}`;
  say($("health"), words);
};

/// For how many nanoseconds the page shows losses and reached limits that are shared by all clients.
const REMEMBERED = 60e9;
const SHORTAGES = {
  memory: "memory is full", room: "topics have no room", "publish-rate": "users publish too fast",
  limit: "a limit is reached", store: "the store takes no messages",
};
const SHARED = ["memory", "connections", "subscriptions", "patterns", "matches", "pattern-positions", "topics", "sessions"];
let pictures = [];

/// The `names` whose values in `figures` have grown from the first to the last snapshot.
const grown = (figures, names) => names.filter((name) => pictures.at(-1)[figures][name] > pictures[0][figures][name]);

/// The increase of a sum from the first to the last snapshot.
const since = (sum) => sum(pictures.at(-1)) - sum(pictures[0]);

/// Describes lost publishes. Losses before the page was opened are shown without a number.
const lossWords = (stats, held) => {
  const lost = since((one) => one.lost_total);
  const known = grown("lost", Object.keys(SHORTAGES));
  const reasons = (known.length > 0 ? known : [stats.last_loss_reason])
    .map((name) => SHORTAGES[name] + (name === "memory" ? ` (${held})` : ""));
  const topic = stats.last_loss_topic ? `, last of ${stats.last_loss_topic}` : "";
  return `${lost > 0 ? `${count(lost)} ` : ""}publishes lost: ${reasons.join(", ")}${topic}`;
};

const dropWords = (limits, most) => {
  const dropped = since(droppedUnasked);
  const short = limits.includes("memory") ? `, and memory ran short (${most})` : "";
  return `${dropped > 0 ? `${count(dropped)} ` : ""}messages dropped for slow subscriptions${short}`;
};

const showHealth = (stats) => {
  pictures = pictures.filter((one) => one.time_ns > stats.time_ns - REMEMBERED && one.uptime_ms <= stats.uptime_ms);
  pictures.push(stats);
  const limits = grown("limits", SHARED);
  const held = `${bytes(stats.memory)} of ${bytes(stats.memory_limit)}`;
  if (stats.shards_missing.length > 0) health("bad", `shard ${stats.shards_missing.join(", ")} is not responding`);
  else if (stats.draining) health("alert", "draining");
  else if (stats.store?.failed) health("bad", "the store has failed: stored topics are read-only until a restart");
  else if (stats.upstream?.unavailable) health("bad", upstreamWords(stats.upstream));
  else if (stats.last_loss_ms < REMEMBERED / 1e6) health("bad", lossWords(stats, held));
  else if (stats.upstream && !stats.upstream.connected) health("alert", upstreamWords(stats.upstream));
  else if (stats.last_drop_ms < REMEMBERED / 1e6) health("alert", dropWords(limits, bytes(stats.memory_limit)));
  else if (limits.length > 0) health("alert", `limit reached: ${limits.join(", ")}`);
  else if (stats.memory > 0.9 * stats.memory_limit) health("alert", `memory is nearly full: ${held}`);
  else if (stats.store && isNearlyFull(stats.store)) {
    health("alert", `the store is ${stats.store.full ? "" : "nearly "}full: `
      + `${bytes(stats.store.bytes)} of ${bytes(stats.store.bytes_limit)}`);
  }
  else if (stats.reload_refused) health("alert", "the last reload was refused; the log says why");
  else health("good", "healthy");
};

// Polling

let isPaused = false;
let timer = 0;
/// Number of polls so far: an answer is ignored if another poll, perhaps for another user, has begun since.
let turns = 0;
let knows = false;
/// The broker requires a user who may see its statistics: polling stops until such a user signs in.
let isLocked = false;
/// Why the user is no longer signed in.
let gone = "";

const showWho = () => say($("sign-in"), signedIn() ? "Signed in" : "Sign in");

/// Fetches what does not change while the broker runs. The address of its HTTP listener needs no permission.
const meet = async () => {
  const page = await fetch(here(""), { method: "HEAD", signal: AbortSignal.timeout(5000) });
  connect(page.headers.get("forebay-http"));
  say($("version"), (await api("info")).version);
  knows = true;
};

const look = async () => {
  clearTimeout(timer);
  const turn = (turns += 1);
  try {
    if (!knows) await meet();
    const picture = await api(`overview?${query()}`);
    if (turn !== turns) return;
    const { slow } = picture.stats;
    showSubscriptions(picture);
    showTopics(picture);
    showTiles(picture.stats);
    showHealth(picture.stats);
    document.title = slow > 0 ? `(${slow} slow) Forebay` : "Forebay";
  } catch (error) {
    if (turn !== turns) return;
    knows = false;
    if (error.status === 401 && signedIn()) {
      forgetWho();
      showWho();
      gone = error.message;
    }
    isLocked = error.status === 401 || error.status === 403;
    if (error.status === 401) health("alert", gone || "sign in to see more");
    else health("bad", error.status ? error.message : "the broker is not responding");
  }
  if (!isPaused && !isLocked) timer = setTimeout(look, INTERVAL);
};

const pause = () => {
  isPaused = !isPaused;
  $("pause").setAttribute("aria-pressed", String(isPaused));
  say($("pause"), isPaused ? "Resume" : "Pause");
  if (isPaused) clearTimeout(timer);
  else if (!isLocked) look();
};

$("pause").addEventListener("click", pause);
$("sign-in").addEventListener("click", async () => {
  if (!(await signIn())) return;
  gone = "";
  isLocked = false;
  stop();
  showWho();
  look();
});
watch(() => { if (!isLocked) look(); });

// Theme: light, dark, or the system's

const THEMES = ["auto", "light", "dark"];
let theme = THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
const paint = () => {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  say($("theme"), `Theme: ${theme}`);
};
$("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  localStorage.setItem("theme", theme);
  paint();
});
paint();

document.addEventListener("keydown", (event) => {
  const isWriting = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName);
  if (isWriting || event.ctrlKey || event.metaKey || event.altKey || $("ask").open) return;
  if (event.key === "/") {
    event.preventDefault();
    $("subscriptions-find").focus();
  }
  if (event.key === "p") pause();
});

look();
