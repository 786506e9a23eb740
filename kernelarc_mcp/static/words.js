"use strict";
// Numbers, times and elements as the page writes them. Everything of a campaign comes in as text and
// never as markup.
const $ = (id) => document.getElementById(id);
const VERDICTS = ["KEEP", "ACCEPT", "REVERT", "REJECT"];
const UNKNOWN = "–";
const MEANS = {
  KEEP: "Proven faster: the record moves to it.",
  ACCEPT: "Close to the record but not proven faster: its agent explores on from it.",
  REVERT: "Built, but it failed, gave wrong values, was slower or was not shown to be close.",
  REJECT: "Stopped at the gate, before anything was timed.",
};
const number = (value, digits) => (value == null ? UNKNOWN : String(Number(value.toPrecision(digits))));
const times = (value) => (value == null ? "" : `${value.toFixed(3)}x`);
const factor = (value) => `${number(value, 3)}x`;
const whole = (value) => (value == null ? UNKNOWN : Math.abs(value) >= 100 ? value.toFixed(0) : number(value, 3));
const spread = (ratio) => (ratio ? `${ratio.lower.toFixed(3)} to ${ratio.upper.toFixed(3)}` : "");
const counted = (count, one, many) => `${count} ${count === 1 ? one : many || `${one}s`}`;
const standing = (verdict) => verdict === "KEEP" || verdict === "ACCEPT";

function zone() {
  const part = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts().find((one) => one.type === "timeZoneName");
  return part ? part.value : "local time";
}

function moment(at, seconds) {
  if (!at) return "";
  const date = new Date(at), two = (value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
}

function ago(at) {
  const seconds = Math.max(0, (Date.now() - new Date(at)) / 1000);
  if (seconds < 60) return "less than a minute ago";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h ago` : moment(at);
}

function element(name, text, cls, title) {
  const made = document.createElement(name);
  if (text !== undefined) made.append(...rich(String(text)));
  if (cls) made.className = cls;
  if (title) made.title = title;
  return made;
}

// What stands between backticks is code.
function rich(text) {
  const parts = text.split(/`([^`\n]+)`/);
  return parts.map((part, index) => {
    if (index % 2 === 0) return document.createTextNode(part);
    const made = document.createElement("code");
    made.textContent = part;
    return made;
  });
}

// heads: [title, class, what it means]; a row: cells, or { cells, cls }; a cell: a value, or [value, class, title].
function table(id, heads, rows) {
  const head = element("thead"), body = element("tbody"), line = element("tr");
  for (const [title, cls, means] of heads) {
    const cell = element("th", title, cls, means);
    cell.scope = "col";
    line.append(cell);
  }
  head.append(line);
  for (const row of rows) {
    const made = element("tr", undefined, row.cls);
    (row.cells || row).forEach((value, index) => {
      const [text, cls, title] = Array.isArray(value) ? value : [value, heads[index][1]];
      const cell = element(index ? "td" : "th", text == null ? "" : text, cls, title);
      if (!index) cell.scope = "row";
      made.append(cell);
    });
    body.append(made);
  }
  if (!rows.length) {
    const cell = element("td", "Nothing yet.");
    cell.colSpan = heads.length;
    body.append(element("tr"));
    body.lastChild.append(cell);
  }
  $(id).replaceChildren(head, body);
}

// Leaves out the columns of which nothing is known; `always` so many of the first stay.
function withoutUnknown(heads, rows, always) {
  const kept = heads.map((_, index) => index < always || rows.some((row) => row[index] !== UNKNOWN && row[index] !== ""));
  return [heads.filter((_, index) => kept[index]), rows.map((row) => row.filter((_, index) => kept[index]))];
}

function list(id, lines) {
  $(id).replaceChildren(...lines.map((line) => element("li", line)));
}

function facts(id, rows) {
  $(id).replaceChildren(...rows.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

// A screen reader hears it again only where it is another.
function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}
