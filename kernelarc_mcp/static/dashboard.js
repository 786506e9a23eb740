"use strict";
const DATA = "/dashboard/data";
const KEPT = "kernelarc-token";
const $ = (id) => document.getElementById(id);
let last = null;

// A link may carry the token behind '#', which browsers send to no server; it does not stay in the address.
if (location.hash.startsWith("#token=")) {
  sessionStorage.setItem(KEPT, decodeURIComponent(location.hash.slice(7)));
  history.replaceState(null, "", location.pathname);
}

function ask(path, signal) {
  const token = sessionStorage.getItem(KEPT);
  return fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store", signal });
}

const times = (value) => (value == null ? "" : `${value.toFixed(3)}x`);
const micros = (value) => (value == null ? "" : value.toPrecision(4));
const spread = (ratio) => (ratio ? `${ratio.lower.toFixed(3)} to ${ratio.upper.toFixed(3)}` : "");
const clock = (at) => (at ? new Date(at).toLocaleTimeString() : "");

// Everything of a campaign comes in as text and never as markup.
function element(name, text, cls) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  return made;
}

function table(id, heads, rows) {
  const head = element("thead"), body = element("tbody"), line = element("tr");
  for (const [title, cls] of heads) {
    const cell = element("th", title, cls);
    cell.scope = "col";
    line.append(cell);
  }
  head.append(line);
  for (const row of rows) {
    const made = element("tr");
    row.forEach((value, index) => {
      const [text, cls] = Array.isArray(value) ? value : [value, heads[index][1]];
      const cell = element(index ? "td" : "th", text == null ? "" : String(text), cls);
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

function list(id, lines) {
  $(id).replaceChildren(...lines.map((line) => element("li", line)));
}

function showRecord(glance) {
  const record = glance.record;
  const over = record.over_seed ? `, 95 % interval ${spread(record.over_seed)}` : "";
  const proven = record.lower ? `; more than ${times(record.lower)} the record before it is proven` : "";
  $("headline").textContent = record.agent == null ? "The seed is the record: no faster kernel is proven yet."
    : `${record.submission} of ${record.agent}: ${times(record.speedup)} the seed${over}${proven}.`;
  const counts = ["KEEP", "ACCEPT", "REVERT", "REJECT"].map((one) => `${glance.verdicts[one] || 0} ${one}`).join(", ");
  $("budget").textContent = `${glance.attempts_used} of ${glance.attempts} attempts used, ${glance.queued} queued, ` +
    `${glance.judging.length} being judged; ${counts}; ${glance.drafts_forced} drafts forced; device held ${glance.device_seconds.toFixed(0)} s.`;
  list("activity", glance.activity);
}

function showStream(glance) {
  table("stream", [["submission"], ["agent"], ["verdict"], ["reason"], ["speedup", "n"], ["against"], ["stood on"], ["lens"], ["settled"], ["summary"]],
    glance.stream.map((row) => [row.submission + (row.draft ? " (draft)" : ""), row.agent, [row.verdict || row.state, row.verdict],
      row.reason, times(row.speedup), row.against, row.parent, row.lens, clock(row.settled_at), row.summary]));
  if (last && glance.seq !== last.seq) {
    const known = new Set(last.stream.filter((row) => row.verdict).map((row) => row.submission));
    const fresh = glance.stream.filter((row) => row.verdict && !known.has(row.submission));
    if (fresh.length) $("news").textContent = fresh.map((row) => `${row.submission} of ${row.agent}: ${row.verdict}, ${row.says}`).join(" ");
  }
}

function showAgents(glance) {
  table("agents", [["agent"], ["lens"], ["attempts", "n"], ["left", "n"], ["r", "n"], ["drafts"], ["branch"], ["KEEP", "n"], ["ACCEPT", "n"],
    ["REVERT", "n"], ["REJECT", "n"], ["best", "n"], ["tokens", "n"], ["cost", "n"]],
  glance.agents.map((one) => [one.agent, one.lens, one.attempts_used, one.attempts_left, one.r,
    `${one.drafts_made} of ${one.drafts_forced}${one.drafting ? ", DRAFT" : ""}`, one.branch,
    ...["KEEP", "ACCEPT", "REVERT", "REJECT"].map((verdict) => one.verdicts[verdict] || 0), times(one.best), ...usage(one.usage)]));
}

function usage(used) {
  if (!used || !used.runs) return ["unknown", "unknown"];
  const part = (known) => (known < used.runs ? ` (of ${known} of ${used.runs} runs)` : "");
  const tokens = used.runs_with_tokens ? (used.input_tokens || 0) + (used.output_tokens || 0) : null;
  return [tokens == null ? "unknown" : tokens.toLocaleString() + part(used.runs_with_tokens),
    used.cost_usd == null ? "unknown" : `${used.cost_usd.toFixed(2)} USD${part(used.runs_with_cost)}`];
}

function showBoard(glance) {
  const lines = glance.records.map((one) => [one.submission + (one.withdrawn ? ` (${one.withdrawn})` : ""), one.agent || "",
    times(one.speedup), spread(one.over_seed), times(one.gain), times(one.lower), one.at_attempt]);
  for (const one of glance.baselines) lines.push([`line to beat: ${one.name}`, "", one.speedup == null ? "not measured" : times(one.speedup), "", "", "", ""]);
  table("board", [["record"], ["agent"], ["over the seed", "n"], ["95 % interval"], ["over the record before", "n"], ["proven above", "n"], ["attempt", "n"]], lines);
  table("times", [["workload"], ["record us", "n"], ["seed us", "n"]],
    glance.workloads.map((row) => [row.name, micros(row.record_us), micros(row.seed_us)]));
}

function showRest(glance) {
  table("lenses", [["lens"], ["agents"], ["attempts", "n"], ["KEEPs", "n"], ["device s", "n"]],
    glance.lenses.map((one) => [one.lens, one.agents.join(", "), one.attempts, one.keeps, one.device_seconds.toFixed(1)]));
  list("memory", glance.conclusions.map((one) => `${one.kind} (${one.evidence}): ${one.summary} ${one.lesson}`));
  $("stored").textContent = `${glance.conclusions.length} of ${glance.conclusions_stored} conclusions, as the retention shows them.`;
  const noise = glance.calibration, canaries = glance.canaries;
  const facts = [["Device", `${glance.device} ${glance.machine}`],
    ["Noise", noise ? `pairs of a kernel with itself differ by ${micros(noise.sd_percent)} %` : "not calibrated yet"],
    ["Smallest provable gain", noise && noise.resolution_percent ? `${micros(noise.resolution_percent)} %` : "unknown"],
    ["Warnings", noise && noise.warnings.length ? noise.warnings.join(" ") : "none"],
    ["Canaries", `record against itself: ${canaries.same_hits} of ${canaries.same} called different; planted delays: ${canaries.delayed_seen} of ${canaries.delayed} seen`]];
  $("device").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  const alarms = [glance.quarantined && `The device is in quarantine: ${glance.quarantined}`, glance.suspect && `The record is suspect: ${glance.suspect}`].filter(Boolean);
  $("alarm").hidden = !alarms.length;
  $("alarm").textContent = alarms.join(" ");
}

function showAll(glance) {
  $("main").hidden = false;
  $("door").hidden = true;
  $("title").textContent = `${glance.campaign}: ${glance.problem}`;
  document.title = `${times(glance.record.speedup)} ${glance.campaign}`;
  showRecord(glance);
  showStream(glance);
  showAgents(glance);
  showBoard(glance);
  showRest(glance);
  draw(glance);
  last = glance;
}

function refuse(status) {
  $("main").hidden = true;
  $("door").hidden = false;
  $("state").textContent = "A token is needed.";
  $("refused").textContent = status === 401 && sessionStorage.getItem(KEPT) ? "This campaign does not know that token." : "";
  sessionStorage.removeItem(KEPT);
  $("token").focus();
}

async function look() {
  const answer = await ask(DATA);
  if (answer.status === 401) return refuse(401);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  showAll(await answer.json());
  $("state").textContent = `Live; last change ${new Date().toLocaleTimeString()}.`;
  return true;
}

async function listen() {
  const silence = new AbortController();
  let timer = 0;
  const heard = () => { clearTimeout(timer); timer = setTimeout(() => silence.abort(), 40000); };
  try {
    heard();
    const answer = await ask(`${DATA}/changes`, silence.signal);
    if (answer.status === 401) return refuse(401);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let buffer = ""; ;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the stream ended");
      heard();
      buffer += value;
      const end = buffer.lastIndexOf("\n\n");
      if (end < 0) continue;
      if (buffer.slice(0, end).includes("event: change") && !(await look())) return;
      buffer = buffer.slice(end + 2);
    }
  } finally {
    clearTimeout(timer);
  }
}

async function live() {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 30000)) {
    try {
      await listen();
      return;
    } catch (error) {
      $("state").textContent = `Not connected (${error.message}); trying again. What is shown may be old.`;
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

function open() {
  if (sessionStorage.getItem(KEPT)) live();
  else refuse(0);
}

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEPT, $("token").value.trim());
  $("token").value = "";
  live();
});
dark.addEventListener("change", () => drawAnew(last));
open();
