// Shared by the parts of the page: elements, number formats, requests and the dialog.

export const $ = (id) => document.getElementById(id);

const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const escape = (mark) => SHORT[mark] ?? `\\u{${mark.codePointAt(0).toString(16)}}`;

/// A name with all invisible and reordering characters escaped.
export const visible = (text) => String(text).replace(
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]/gu, escape);

/// A message with control characters escaped, except for line breaks, tabs and characters that are part of letters.
export const readable = (text) => text.replace(
  /(?![\n\t])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\ufeff\ufff9-\ufffb]/gu, escape);

/// An element with properties, attributes (names with a hyphen, `role` and `scope`) and children.
export const make = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "scope") element.setAttribute(name, value);
    else element[name] = name === "textContent" ? visible(value) : value;
  }
  element.append(...children);
  return element;
};

/// Sets text only if it differs, to preserve selections and screen readers' positions.
export const say = (element, text) => {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
};

/// Number of characters at the end of a long name that are always shown.
const TAIL = 14;

/// Sets a name. A name that does not fit is truncated in the middle, because both ends distinguish it from others.
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

/// A number with one decimal place if it is below `fine` after rounding.
const fixed = (n, fine) => n.toFixed(n < fine - 0.05 ? 1 : 0);

// Unit, the smallest number it is used for, its size, and the bound below which it has a decimal place. The smallest
// number is the one that would round up to a thousand of the next smaller unit.
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

/// A line chart of recent values; `draw` redraws it.
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

/// Appends to a list of recent values.
export const remember = (list, value, length = 60) => {
  list.push(value);
  if (list.length > length) list.shift();
};

// The user's credentials, if signed in. They are stored nowhere else.
let authorization = null;
export const signedIn = () => authorization !== null;
export const forgetWho = () => { authorization = null; };
export const headers = (more = {}, who = authorization) => (who ? { authorization: who, ...more } : more);

/// The reason in an error response.
export const refusal = async (answer) => {
  try {
    return (await answer.json()).detail ?? answer.statusText;
  } catch {
    return answer.statusText || `status ${answer.status}`;
  }
};

/// A URL relative to the page, for `fetch`, which rejects URLs with a user name and password.
export const here = (path) => new URL(path, location.origin + location.pathname);

/// Sends a request to the admin listener and returns its JSON.
export const api = async (path, options = {}, who = authorization) => {
  const type = options.method === "POST" ? { "content-type": "application/json" } : {};
  // With this header, a refusal does not make the browser show its own login dialog.
  const own = headers({ "x-requested-with": "XMLHttpRequest", ...type }, who);
  const answer = await fetch(here(`api/v1/${path}`), { ...options, headers: own, signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw Object.assign(new Error(await refusal(answer)), { status: answer.status });
  return answer.json();
};

/// Shows the dialog. `buttons` are [text, value, class]; resolves with a value, or "" if it was dismissed.
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

/// Asks for a user and password, or only a token, until the broker accepts them. Returns true once the broker has
/// accepted them, and false if the dialog was dismissed.
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
  let words = "Enter a user name and password, or only a token. The page forgets them when it is closed.";
  for (;;) {
    const said = await ask(
      "Sign in", words, [["Cancel", ""], ...(authorization ? [["Sign out", "out"]] : []), ["Sign in", "in", "main"]],
      field("User (leave empty for a token)", user), field("Password or token", password));
    // Also clears everything that the page shows.
    if (said === "out") location.reload();
    if (said !== "in") return false;
    const text = new TextEncoder().encode(`${user.value}:${password.value}`);
    const who = user.value ? `Basic ${btoa(String.fromCharCode(...text))}` : `Bearer ${password.value}`;
    try {
      // A user who may not see this information is authenticated nevertheless.
      await api("info", {}, who).catch((error) => { if (error.status !== 403) throw error; });
      authorization = who;
      return true;
    } catch (error) {
      words = error.status ? error.message : "The broker is not responding.";
      password.value = "";
      password.autofocus = user.value !== "";
    }
  }
};
