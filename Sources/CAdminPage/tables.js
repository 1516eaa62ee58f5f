// The two tables: subscriptions, slow ones first, and topics with their rates. Rows are kept from one picture to the
// next, so that focus stays where it is.

import { $, api, ask, count, make, rate, remember, say, sparkline, time } from "./kit.js";

/// From here on a subscription with messages waiting is slow, and not just about to get them.
const SLOW = 750;
const STEPS = { credit: 33, waiting: 33, dropped: 33 };
const client = (row) => (row.user ? `${row.user} at ${row.peer}` : row.peer);
const isSlow = (row) => row.waits_for !== "nothing" && row.behind_ms >= SLOW;

const STATES = {
  credit: ["alert", "no credit", "its client has not asked for more"],
  socket: ["bad", "not reading", "its client does not read what was sent"],
};

/// Gives each item of `items` the row that it had, and puts all of them in order.
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

const cell = (name = "number") => make("td", { className: name });

// Subscriptions

const subscriptionRows = new Map();

const buildSubscription = () => {
  const pill = make("span", { className: "pill" });
  const topic = cell("topic");
  const strip = make("div", { className: "strip", role: "img" });
  const parts = {};
  for (const name of Object.keys(STEPS)) strip.append((parts[name] = make("i", { className: name })));
  const cut = make("button", { type: "button", className: "plain", textContent: "Cut off" });
  const row = {
    pill, topic, strip, parts, cut, client: cell("client"), credit: cell(), waiting: cell(), dropped: cell(),
    behind: cell(), element: null, item: null, last: null,
  };
  cut.addEventListener("click", () => cutOff(row.item));
  row.element = make(
    "tr", {}, make("td", {}, pill), topic, row.client, make("td", { className: "meter" }, strip), row.credit,
    row.waiting, row.dropped, row.behind, make("td", { className: "number" }, cut));
  return row;
};

/// 0 to 1, where a million is 1.
const length = (n) => (n === "unbounded" ? 1 : Math.min(1, Math.log10(1 + n) / 6));

const updateSubscription = (row, item) => {
  row.item = item;
  const slow = isSlow(item);
  const [kind, word, why] = slow ? STATES[item.waits_for] : ["calm", "keeping up", "nothing waits for long"];
  row.pill.className = `pill ${kind}`;
  row.pill.title = why;
  say(row.pill, word);
  say(row.topic, item.topic);
  row.topic.title = item.topic;
  say(row.client, `${client(item)} · ${item.policy}`);
  row.client.title = `${client(item)}: subscription ${item.id}, connection ${item.connection}, buffer ${item.buffer}`;
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
  row.cut.setAttribute("aria-label", `Cut off subscription ${item.id} of ${item.topic}, ${client(item)}`);
};

const cutOff = async (item) => {
  const said = await ask(
    "Cut off this subscriber?",
    `Subscription ${item.id} of ${item.topic}, asked for by ${client(item)}: ${item.waiting} messages wait for it, `
      + `${item.dropped} were dropped. Its client is told, and may come back.`,
    [["Leave it", ""], ["End the subscription", "subscription", "danger"],
      ["Close its connection", "connection", "danger"]]);
  if (!said) return;
  try {
    await api(said === "connection" ? `connections/${item.connection}` : `subscriptions/${item.id}`,
      { method: "DELETE" });
  } catch (error) {
    await ask("That did not work", error.message, [["Close", ""]]);
  }
};

export const showSubscriptions = (picture) => {
  const all = picture.subscriptions;
  const slow = all.filter(isSlow);
  const wanted = $("filter").value.trim().toLowerCase();
  const shown = ($("only-slow").checked ? slow : all)
    .filter((row) => !wanted || `${row.topic} ${client(row)} ${row.policy}`.toLowerCase().includes(wanted))
    .sort((a, b) => isSlow(b) - isSlow(a) || (isSlow(a) ? b.behind_ms - a.behind_ms : 0) || a.id - b.id)
    .slice(0, 250);
  const words = $("only-slow").checked ? "No subscription is slow." : "No subscriptions.";
  arrange($("subscriptions").tBodies[0], subscriptionRows, shown, (row) => row.id, buildSubscription,
    updateSubscription, wanted ? "None matches the filter." : words);
  const total = picture.stats.subscriptions;
  say($("slow-words"), total === 0 ? "" : slow.length === 0
    ? `All ${total} keep up` : `${slow.length} of ${total} ${slow.length === 1 ? "is" : "are"} slow`);
  say($("more"), total > shown.length && !wanted && !$("only-slow").checked
    ? ` – ${shown.length} of ${total} shown` : "");
  return slow.length;
};

// Topics

const topicRows = new Map();

const buildTopic = (item) => {
  const name = make("button", { type: "button", className: "link", textContent: item.name });
  name.title = "Publish to it and tail it";
  name.addEventListener("click", () => {
    $("topic").value = item.name;
    $("topic").dispatchEvent(new Event("change"));
    $("message").focus();
  });
  const spark = sparkline();
  const state = make("span", { className: "pill", hidden: true });
  const end = make("button", { type: "button", className: "plain", textContent: "End…" });
  end.setAttribute("aria-label", `End or delete ${item.name}`);
  end.addEventListener("click", () => endTopic(row.item));
  const row = {
    spark, state, history: [], into: cell(), out: cell(), subscriptions: cell(), behind: cell(), waiting: cell(),
    dropped: cell(), blocked: cell(), element: null, item: null, last: null,
  };
  row.element = make(
    "tr", {}, make("td", { className: "topic" }, name, " ", state), make("td", {}, spark.svg), row.into, row.out,
    row.subscriptions, row.behind, row.waiting, row.dropped, row.blocked, make("td", { className: "number" }, end));
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
  say(row.blocked, item.publishers_blocked + item.parked > 0 ? count(item.publishers_blocked) : "–");
  row.blocked.className = item.publishers_blocked > 0 ? "number alert" : "number";
};

const endTopic = async (item) => {
  const reason = make("input", { placeholder: "failed by request", autocomplete: "off" });
  const said = await ask(
    `End ${item.name}?`, "Its subscribers get what waits for them and then the end, its publishers are rejected. "
      + "Deleting takes its retained messages too; the next use makes it anew.",
    [["Leave it", ""], ["Delete", "delete", "danger"], ["Fail", "fail", "danger"], ["Complete", "complete", "main"]],
    make("label", { className: "field" }, make("span", { textContent: "Reason, if it fails" }), reason));
  if (!said) return;
  const path = `topics/${encodeURIComponent(item.name)}`;
  const why = reason.value ? `?message=${encodeURIComponent(reason.value)}` : "";
  try {
    if (said === "delete") await api(path, { method: "DELETE" });
    else await api(`${path}/${said}${said === "fail" ? why : ""}`, { method: "POST" });
  } catch (error) {
    await ask("That did not work", error.message, [["Close", ""]]);
  }
};

export const showTopics = (picture) => {
  const at = picture.stats.time_ns / 1e6;
  const items = picture.topics.map((topic) => ({ ...topic, at }));
  const names = items.filter((topic) => !topic.name.startsWith("$SYS."));
  arrange($("topics").tBodies[0], topicRows, names, (topic) => topic.name, buildTopic, updateTopic, "No topics yet.");
  const total = picture.stats.topics - (items.length - names.length);
  say($("topics-words"), total > names.length ? `the busiest ${names.length} of ${total}` : "");
  const list = $("names");
  if (list.childElementCount !== names.length) {
    list.replaceChildren(...names.map((topic) => make("option", { value: topic.name })));
  }
};
