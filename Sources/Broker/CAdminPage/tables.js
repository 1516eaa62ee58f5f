// The two tables: subscriptions, slow ones first, and topics with their rates. The broker searches, sorts and returns one
// page of rows. Row elements are reused from one snapshot to the next, so that the focus is preserved.

import { $, api, ask, bytes, count, make, rate, remember, say, sayName, sparkline, time, visible } from "./kit.js";

/// Milliseconds after which a subscription with waiting messages counts as slow.
const SLOW = 750;
/// Rows per page.
const PAGE = 100;
/// Number of rows that the broker can reach.
const REACH = 10_000;
const STEPS = { credit: 33, waiting: 33, dropped: 33 };
const client = (row) => (row.user ? `${row.user} at ${row.peer}` : row.peer);
const isSlow = (row) => row.waits_for !== "nothing" && row.behind_ms >= SLOW;

/// Number of rows ahead of the current page, by table.
const skipped = { subscriptions: 0, topics: 0 };

/// The query for the broker.
export const query = () => {
  const asked = new URLSearchParams();
  for (const table of ["subscriptions", "topics"]) {
    asked.set(table, PAGE);
    asked.set(`${table}_skip`, skipped[table]);
    asked.set(`${table}_sort`, $(`${table}-sort`).value);
    asked.set(`${table}_find`, $(`${table}-find`).value.trim());
  }
  if ($("only-slow").checked) asked.set("subscriptions_slow", 1);
  return asked;
};

/// Calls `look` when the user changes what the tables show.
export const watch = (look) => {
  let timer = 0;
  for (const table of ["subscriptions", "topics"]) {
    const begin = (delay) => () => {
      skipped[table] = 0;
      clearTimeout(timer);
      timer = setTimeout(look, delay);
    };
    // Waits for a pause in typing instead of searching at every keystroke.
    $(`${table}-find`).addEventListener("input", begin(150));
    $(`${table}-sort`).addEventListener("input", begin(0));
    if (table === "subscriptions") $("only-slow").addEventListener("input", begin(0));
    for (const [name, step] of [["back", -PAGE], ["on", PAGE]]) {
      $(`${table}-${name}`).addEventListener("click", () => {
        skipped[table] = Math.max(0, skipped[table] + step);
        look();
      });
    }
  }
};

/// Shows which rows are visible, and the total number.
const showPlace = (table, shown, found) => {
  const first = skipped[table];
  const isPaged = first > 0 || found > shown;
  const exact = (n) => n.toLocaleString("en");
  say($(`${table}-place`), isPaged ? `${exact(shown && first + 1)} to ${exact(first + shown)} of ${exact(found)}` : "");
  $(`${table}-pages`).hidden = !isPaged;
  $(`${table}-back`).disabled = first === 0;
  $(`${table}-on`).disabled = first + shown >= found || first + 2 * PAGE > REACH;
  // The rows of this page have disappeared.
  if (shown === 0 && first > 0) skipped[table] = Math.max(0, PAGE * Math.floor((found - 1) / PAGE));
};

/// Reuses or creates a row for each item of `items`, and puts the rows in order.
const arrange = (body, rows, items, key, build, update, words) => {
  const seen = new Set();
  let place = body.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    seen.add(name);
    let row = rows.get(name);
    if (!row) rows.set(name, (row = build(item)));
    update(row, item);
    if (row.element === place) place = place.nextElementSibling;
    else body.insertBefore(row.element, place);
  }
  for (const [name, row] of rows) {
    if (seen.has(name)) continue;
    row.element.remove();
    rows.delete(name);
  }
  body.querySelector(".none")?.remove();
  if (items.length === 0) {
    const columns = body.parentElement.tHead.rows[0].cells.length;
    const cell = make("td", { className: "empty", colSpan: columns, textContent: words });
    body.append(make("tr", { className: "none" }, cell));
  }
};

const cell = (label, name = "number") => make("td", { className: name, role: "cell", "data-label": label });

// Subscriptions

const subscriptionRows = new Map();

const buildSubscription = () => {
  const pill = make("span", { className: "pill" });
  const why = make("span", { className: "why" });
  const topic = make("span", {});
  const active = make("span", { className: "why" });
  const who = make("span", {});
  const strip = make("div", { className: "strip", role: "img" });
  const parts = {};
  for (const name of Object.keys(STEPS)) strip.append((parts[name] = make("i", { className: name })));
  const cut = make("button", { type: "button", className: "plain", textContent: "Cut off" });
  const row = {
    pill, why, topic, active, who, strip, parts, cut, credit: cell("Credit"), waiting: cell("Waiting"),
    dropped: cell("Dropped"), behind: cell("Behind for"), element: null, item: null, past: [],
  };
  cut.addEventListener("click", () => cutOff(row.item));
  row.client = make("td", { className: "client", role: "cell" }, who);
  row.element = make(
    "tr", { role: "row" }, make("td", { className: "state", role: "cell" }, pill, why),
    make("td", { className: "topic", role: "cell" }, topic, active), row.client,
    make("td", { className: "meter", role: "cell" }, strip), row.credit, row.waiting, row.dropped, row.behind,
    make("td", { className: "act", role: "cell" }, cut));
  return row;
};

/// Maps a number to 0 to 1 on a logarithmic scale, where a million is 1.
const length = (n) => (n === "unbounded" ? 1 : Math.min(1, Math.log10(1 + n) / 6));

/// Requested and arriving messages per second over the last five snapshots; null before there are two.
const pace = (row, item, at) => {
  row.past.push({ at, asked: item.requested, came: item.delivered + item.dropped + item.waiting });
  if (row.past.length > 5) row.past.shift();
  const [first, last] = [row.past[0], row.past.at(-1)];
  const seconds = (last.at - first.at) / 1000;
  if (seconds <= 0 || typeof last.asked !== "number") return null;
  return { asked: (last.asked - first.asked) / seconds, came: (last.came - first.came) / seconds };
};

/// The CSS class, name and reason of a subscription's state.
const judge = (item, paces) => {
  if (item.waits_for === "topic") return ["calm", "waits for topic", ""];
  if (!isSlow(item)) return ["calm", "keeping up", ""];
  if (item.waits_for === "socket") return ["bad", "not reading", "does not read what was sent"];
  // A client that has requested messages since they began to wait requests too few.
  if (item.asked_ms >= item.behind_ms) return ["alert", "no credit", `has not asked for more for ${time(item.asked_ms)}`];
  return ["alert", "asks too little",
    paces ? `asks for ${rate(paces.asked)} / s, needs ${rate(Math.max(0, paces.came))} / s` : "asks, for too few"];
};

/// In how many topics a pattern has a position: those that had a message lately, or whose messages wait for it.
const activity = (item) => {
  if (item.cursors === undefined) return "";
  const words = `${count(item.cursors)} active ${item.cursors === 1 ? "topic" : "topics"}`;
  return item.skipped > 0 ? `${words}, skipped others ${item.skipped === 1 ? "once" : `${count(item.skipped)} times`}` : words;
};

const updateSubscription = (row, item) => {
  row.item = item;
  const slow = isSlow(item);
  const [kind, word, why] = judge(item, pace(row, item, item.at));
  row.pill.className = `pill ${kind}`;
  say(row.pill, word);
  say(row.why, why);
  sayName(row.topic, item.topic);
  say(row.active, activity(item));
  row.active.title = item.matched === undefined ? "" : `${count(item.matched)} topics matched when it began`;
  sayName(row.who, `${client(item)} · ${item.policy}`);
  row.client.title = visible(
    `${client(item)}: subscription ${item.id}, connection ${item.connection}, buffer ${item.buffer}`);
  const figures = { credit: item.outstanding, waiting: item.waiting, dropped: item.dropped };
  for (const [name, width] of Object.entries(STEPS)) {
    row.parts[name].style.width = `${(width * length(figures[name])).toFixed(1)}%`;
  }
  row.strip.setAttribute(
    "aria-label", `credit ${count(item.outstanding)}, waiting ${item.waiting}, dropped ${item.dropped}`);
  say(row.credit, count(item.outstanding));
  say(row.waiting, count(item.waiting));
  say(row.dropped, count(item.dropped));
  say(row.behind, slow ? time(item.behind_ms) : "–");
  row.credit.className = slow && item.waits_for === "credit" ? "number alert" : "number";
  row.dropped.className = item.dropped > (row.last ?? item.dropped) ? "number bad" : "number";
  row.last = item.dropped;
  row.cut.setAttribute("aria-label", visible(`Cut off subscription ${item.id} of ${item.topic}, ${client(item)}`));
};

const cutOff = async (item) => {
  const said = await ask(
    "Cut off this subscriber?",
    `Subscription ${item.id} of ${item.topic}, of client ${client(item)}: ${item.waiting} messages wait for it, `
      + `${item.dropped} were dropped. Its client receives the reason, and may reconnect.`,
    [["Cancel", ""], ["End the subscription", "subscription", "danger"],
      ["Close its connection", "connection", "danger"]]);
  if (!said) return;
  try {
    await api(said === "connection" ? `connections/${item.connection}` : `subscriptions/${item.id}`,
      { method: "DELETE" });
  } catch (error) {
    await ask("Request failed", error.message, [["Close", ""]]);
  }
};

export const showSubscriptions = (picture) => {
  const at = picture.stats.time_ns / 1e6;
  const shown = picture.subscriptions.map((row) => ({ ...row, at }));
  const words = $("only-slow").checked ? "No subscription is slow." : "No subscriptions.";
  const isSought = $("subscriptions-find").value.trim() !== "";
  arrange($("subscriptions").tBodies[0], subscriptionRows, shown, (row) => row.id, buildSubscription,
    updateSubscription, isSought ? "None matches the filter." : words);
  const { subscriptions: total, slow } = picture.stats;
  say($("slow-words"), total === 0 ? "" : slow === 0
    ? `All ${total} keep up` : `${slow} of ${total} ${slow === 1 ? "is" : "are"} slow`);
  showPlace("subscriptions", shown.length, picture.subscriptions_found);
};

// Topics

const topicRows = new Map();

/// What publishers wait for.
const REASONS = {
  subscription: "They wait for a blocking subscription", store: "They wait for the store to write earlier messages",
  upstream: "They wait for NATS to acknowledge earlier messages", memory: "They wait for memory",
};

const buildTopic = (item) => {
  const name = make("button", { type: "button", className: "link" });
  sayName(name, item.name);
  name.addEventListener("click", () => {
    $("topic").value = item.name;
    $("topic").dispatchEvent(new Event("change"));
    $("message").focus();
  });
  const spark = sparkline();
  const state = make("span", { className: "pill", hidden: true });
  const storage = make("span", { className: "pill calm storage", hidden: true });
  const end = make("button", { type: "button", className: "plain", textContent: "End…" });
  end.setAttribute("aria-label", `End or delete ${item.name}`);
  end.addEventListener("click", () => endTopic(row.item));
  const row = {
    spark, state, storage, history: [], into: cell("In / s"), out: cell("Out / s"), subscriptions: cell("Subscr."),
    behind: cell("Behind"), waiting: cell("Waiting"), dropped: cell("Dropped"), lost: cell("Lost"),
    blocked: cell("Blocked"), size: cell("Size"), element: null, item: null, last: null,
  };
  row.element = make(
    "tr", { role: "row" }, make("td", { className: "topic", role: "cell" }, name, " ", state, " ", storage),
    make("td", { className: "meter", role: "cell" }, spark.svg), row.into, row.out, row.subscriptions, row.behind,
    row.waiting, row.dropped, row.lost, row.blocked, row.size,
    make("td", { className: "act", role: "cell" }, end));
  return row;
};

const updateTopic = (row, item) => {
  const last = row.last?.epoch === item.epoch ? row.last : null;
  const seconds = last ? (item.at - last.at) / 1000 : 0;
  const per = (name) => (seconds > 0 ? Math.max(0, item[name] - last[name]) / seconds : 0);
  if (last) remember(row.history, per("published"));
  row.spark.draw(row.history);
  row.item = row.last = item;
  row.state.hidden = item.state === "live";
  row.state.className = item.state === "failed" ? "pill bad" : "pill";
  say(row.state, item.state);
  row.storage.hidden = item.storage === "memory";
  say(row.storage, item.storage);
  say(row.into, rate(per("published")));
  say(row.out, rate(per("delivered")));
  say(row.subscriptions, count(item.subscriptions));
  const behind = item.waiting_for_credit + item.waiting_for_socket;
  const slow = item.behind_ms >= SLOW;
  say(row.behind, slow ? `${behind}` : "–");
  row.behind.className = slow ? "number alert" : "number";
  say(row.waiting, count(item.waiting));
  say(row.dropped, count(item.dropped));
  row.dropped.className = per("dropped") > 0 ? "number bad" : "number";
  say(row.lost, count(item.lost));
  row.lost.className = per("lost") > 0 ? "number bad" : "number";
  say(row.blocked, item.publishers_blocked + item.parked > 0 ? count(item.publishers_blocked) : "–");
  row.blocked.title = item.publishers_wait_for ? REASONS[item.publishers_wait_for] : "";
  row.blocked.className = item.publishers_blocked > 0 ? "number alert" : "number";
  say(row.size, bytes(item.bytes));
  row.size.title = item.storage === "memory" ? ""
    : `${bytes(item.resident_bytes)} in memory, ${count(item.uncommitted)} messages (${bytes(item.uncommitted_bytes)}) `
      + (item.storage === "shared" ? "not acknowledged by NATS yet" : "not written yet");
};

const endTopic = async (item) => {
  const reason = make("input", { placeholder: "failed by request", autocomplete: "off" });
  const said = await ask(
    `End ${item.name}?`, "Its subscribers receive all waiting messages and then the end; its publishers are rejected. "
      + "Deleting also removes its retained messages; the next use creates a new topic.",
    [["Cancel", ""], ["Delete", "delete", "danger"], ["Fail", "fail", "danger"], ["Complete", "complete", "main"]],
    make("label", { className: "field" }, make("span", { textContent: "Reason, if it fails" }), reason));
  if (!said) return;
  const path = `topics/${encodeURIComponent(item.name)}`;
  const why = reason.value ? `?message=${encodeURIComponent(reason.value)}` : "";
  try {
    if (said === "delete") await api(path, { method: "DELETE" });
    else await api(`${path}/${said}${said === "fail" ? why : ""}`, { method: "POST" });
  } catch (error) {
    await ask("Request failed", error.message, [["Close", ""]]);
  }
};

export const showTopics = (picture) => {
  const at = picture.stats.time_ns / 1e6;
  const items = picture.topics.map((topic) => ({ ...topic, at }));
  const isSought = $("topics-find").value.trim() !== "";
  arrange($("topics").tBodies[0], topicRows, items, (topic) => topic.name, buildTopic, updateTopic,
    isSought ? "None matches the filter." : "No topics yet.");
  showPlace("topics", items.length, picture.topics_found);
  const list = $("names");
  const names = items.map((topic) => topic.name);
  if ([...list.children].map((one) => one.value).join() !== names.join()) {
    list.replaceChildren(...names.map((name) => make("option", { value: name })));
  }
};
