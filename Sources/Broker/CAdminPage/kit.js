// What the parts of the page share: elements, numbers as people read them, requests, and the one dialog.

export const $ = (id) => document.getElementById(id);

const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const escape = (mark) => SHORT[mark] ?? `\\u{${mark.codePointAt(0).toString(16)}}`;

/// A name with every mark in it that cannot be seen, or that shows others in another order, written out.
export const visible = (text) => String(text).replace(
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]/gu, escape);

/// A message for a person, who may need its line ends, and marks that belong to its letters.
export const readable = (text) => text.replace(
  /(?![\n\t])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\ufeff\ufff9-\ufffb]/gu, escape);

/// An element with properties, attributes (those with a hyphen, and role) and children.
export const make = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "scope") element.setAttribute(name, value);
    else element[name] = name === "textContent" ? visible(value) : value;
  }
  element.append(...children);
  return element;
};

/// Sets text only where it differs, so that what is selected or read aloud stays.
export const say = (element, text) => {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
};

/// The most of a long name's end that is always shown.
const TAIL = 14;

/// Sets a name. One that finds no room is cut in its middle: both ends tell it from others.
export const sayName = (element, text) => {
  const shown = visible(text);
  if (element.title === shown) return;
  element.title = shown;
  const marks = [...shown];
  const isLong = marks.length > 2 * TAIL;
  element.classList.toggle("cut", isLong);
  if (!isLong) element.textContent = shown;
  else {
    element.replaceChildren(
      make("span", { className: "begin", textContent: marks.slice(0, -TAIL).join("") }),
      make("span", { textContent: marks.slice(-TAIL).join("") }));
  }
};

/// With one digit behind the point where it is below `fine` when it is rounded.
const fixed = (n, fine) => n.toFixed(n < fine - 0.05 ? 1 : 0);

// Unit, the least number it is for, its size, and up to where it has a digit behind the point. The least one is what
// would be rounded up to a thousand of the unit below.
const COUNTS = [["G", 999.5e6, 1e9, 10], ["M", 999.5e3, 1e6, 10], ["k", 9999.5, 1e3, 100]];
const SIZES = [
  ["GiB", 1023.5 * 2 ** 20, 2 ** 30, 10], ["MiB", 1023.5 * 2 ** 10, 2 ** 20, 10], ["KiB", 2 ** 10, 2 ** 10, 10],
];

const inUnits = (n, units) => {
  const found = units.find(([, least]) => n >= least);
  return found && `${fixed(n / found[2], found[3])} ${found[0]}`;
};

export const count = (n) =>
  n === "unbounded" ? "∞" : inUnits(n, COUNTS) ?? Math.round(n).toLocaleString("en");

export const rate = (n) => (n > 0 && n < 9.95 ? n.toFixed(1) : count(n));

export const bytes = (n) => inUnits(n, SIZES) ?? `${n} B`;

export const time = (ms) => {
  const seconds = ms / 1000;
  if (seconds < 1) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
};

const SVG = "http://www.w3.org/2000/svg";

/// A line of the last figures; `draw` redraws it.
export const sparkline = (length = 60) => {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 100 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const area = document.createElementNS(SVG, "polygon");
  const line = document.createElementNS(SVG, "polyline");
  svg.append(area, line);
  const draw = (values) => {
    const top = Math.max(1, ...values);
    const first = length - values.length;
    const points = values.map((value, index) =>
      `${(((first + index) * 100) / (length - 1)).toFixed(1)},${(22 - (20 * value) / top).toFixed(1)}`);
    line.setAttribute("points", points.join(" "));
    const left = ((first * 100) / (length - 1)).toFixed(1);
    area.setAttribute("points", values.length > 1 ? `${left},23 ${points.join(" ")} 100,23` : "");
  };
  return { svg, draw };
};

/// Keeps a list of the last figures.
export const remember = (list, value, length = 60) => {
  list.push(value);
  if (list.length > length) list.shift();
};

// Who asks, if that was told. It is kept nowhere else.
let authorization = null;
export const signedIn = () => authorization !== null;
export const forgetWho = () => { authorization = null; };
export const headers = (more = {}, who = authorization) => (who ? { authorization: who, ...more } : more);

/// A refusal's own words.
export const refusal = async (answer) => {
  try {
    return (await answer.json()).detail ?? answer.statusText;
  } catch {
    return answer.statusText || `status ${answer.status}`;
  }
};

/// Where the page is, for `fetch`, which takes no URL with a user's name and password in it.
export const here = (path) => new URL(path, location.origin + location.pathname);

/// Asks the admin listener, and returns its JSON.
export const api = async (path, options = {}, who = authorization) => {
  const type = options.method === "POST" ? { "content-type": "application/json" } : {};
  // So marked, a refusal does not make the browser ask who one is by a dialog of its own.
  const own = headers({ "x-requested-with": "XMLHttpRequest", ...type }, who);
  const answer = await fetch(here(`api/v1/${path}`), { ...options, headers: own, signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw Object.assign(new Error(await refusal(answer)), { status: answer.status });
  return answer.json();
};

/// Asks the person. `buttons` are [text, value, class]; resolves with a value, or "" when it was left.
export const ask = (title, words, buttons, ...fields) => {
  const dialog = $("ask");
  say($("ask-title"), title);
  say($("ask-words"), words);
  $("ask-fields").replaceChildren(...fields);
  $("ask-buttons").replaceChildren(
    ...buttons.map(([text, value, name = ""]) =>
      make("button", { type: "submit", textContent: text, value, className: name })));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue), { once: true }));
};

/// Asks who the person is: a user with a password, or a token alone; again, as long as the broker does not know. True
/// when it does.
export const signIn = async () => {
  const user = make("input", { autocomplete: "username", spellcheck: false });
  const password = make("input", { type: "password", autocomplete: "current-password" });
  const field = (text, input) => make("label", { className: "field" }, make("span", { textContent: text }), input);
  for (const input of [user, password]) {
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      $("ask").close("in");
    });
  }
  let words = "A user's name and password, or a token alone. The page forgets them when it is closed.";
  for (;;) {
    const said = await ask(
      "Sign in", words, [["Cancel", ""], ...(authorization ? [["Sign out", "out"]] : []), ["Sign in", "in", "main"]],
      field("User (leave empty for a token)", user), field("Password or token", password));
    // With all that it shows.
    if (said === "out") location.reload();
    if (said !== "in") return false;
    const text = new TextEncoder().encode(`${user.value}:${password.value}`);
    const who = user.value ? `Basic ${btoa(String.fromCharCode(...text))}` : `Bearer ${password.value}`;
    try {
      // Who may not see this is known nevertheless.
      await api("info", {}, who).catch((error) => { if (error.status !== 403) throw error; });
      authorization = who;
      return true;
    } catch (error) {
      words = error.status ? error.message : "The broker does not answer.";
      password.value = "";
      password.autofocus = user.value !== "";
    }
  }
};
