"use strict";
// The page's parts, each from the one document that the server makes. Everything of a campaign comes in
// as text and never as markup.
const $ = (id) => document.getElementById(id);
const VERDICTS = ["KEEP", "ACCEPT", "REVERT", "REJECT"];
const times = (value) => (value == null ? "" : `${value.toFixed(3)}x`);
const micros = (value) => (value == null ? "" : value.toPrecision(4));
const rate = (value) => (value == null ? "unknown" : (value / 1e9).toPrecision(4));
const spread = (ratio) => (ratio ? `${ratio.lower.toFixed(3)} to ${ratio.upper.toFixed(3)}` : "");
const clock = (at) => (at ? new Date(at).toLocaleTimeString() : "");

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
  const counts = VERDICTS.map((one) => `${glance.verdicts[one] || 0} ${one}`).join(", ");
  $("budget").textContent = `${glance.attempts_used} of ${glance.attempts} attempts used, ${glance.queued} queued, ` +
    `${glance.judging.length} being judged; ${counts}; ${glance.drafts_forced} drafts forced; device held ${glance.device_seconds.toFixed(0)} s.`;
  list("activity", glance.activity);
}

function showStream(page, newest) {
  table("stream", [["submission"], ["agent"], ["verdict"], ["reason"], ["speedup", "n"], ["against"], ["stood on"], ["lens"], ["settled"], ["summary"]],
    page.rows.map((row) => [row.submission + (row.draft ? " (draft)" : ""), row.agent, [row.verdict || row.state, row.verdict],
      row.reason, times(row.speedup), row.against, row.parent, row.lens, clock(row.settled_at), row.summary]));
  const numbers = page.rows.map((row) => row.number);
  $("where").textContent = numbers.length ? `Attempts ${Math.min(...numbers)} to ${Math.max(...numbers)} of ${page.attempts}.` : "";
  $("older").disabled = page.older == null;
  $("newest").disabled = newest;
}

function showAgents(glance) {
  const costs = new Map(glance.costs.agents.map((row) => [row.agent, row]));
  table("agents", [["agent"], ["lens"], ["attempts", "n"], ["left", "n"], ["r", "n"], ["drafts"], ["branch"], ...VERDICTS.map((one) => [one, "n"]),
    ["best", "n"], ["model"], ["tokens", "n"], ["cost", "n"]],
  glance.agents.map((one) => {
    const cost = costs.get(one.agent);
    return [one.agent, one.lens, one.attempts_used, one.attempts_left, one.r,
      `${one.drafts_made} of ${one.drafts_forced}${one.drafting ? ", DRAFT" : ""}`, one.branch,
      ...VERDICTS.map((verdict) => one.verdicts[verdict] || 0), times(one.best), cost.models.join(", ") || "unknown", cost.tokens, cost.usd];
  }));
}

function showCosts(costs) {
  const cells = (row) => [row.tokens, row.usd, row.keeps, row.keep_tokens, row.keep_usd, row.percent_tokens, row.percent_usd];
  table("costs", [["agent"], ["tokens", "n"], ["money", "n"], ["KEEPs", "n"], ["tokens per KEEP", "n"], ["money per KEEP", "n"],
    ["tokens per 1 % gained", "n"], ["money per 1 % gained", "n"]],
  [...costs.agents.map((row) => [row.agent, ...cells(row)]), ["all together", ...cells(costs.total)]]);
  list("cost-notes", costs.notes);
}

function showRoofline(view) {
  table("dots", [["record"], ["agent"], ["attempt", "n"], ["us for all workloads", "n"], ["GB/s", "n"], ["matrix GFLOP/s", "n"], ["of its bound", "n"]],
    view.dots.map((dot) => [dot.submission + (dot.withdrawn ? " (withdrawn)" : ""), dot.agent, dot.at_attempt, micros(dot.microseconds),
      rate(dot.bytes_per_second), view.operations === 0 ? "none" : rate(dot.operations_per_second), dot.of_bound == null ? "unknown" : `${(100 * dot.of_bound).toPrecision(3)} %`]));
  $("roof").textContent = view.words;
  list("roof-notes", view.notes);
}

function showBoard(glance) {
  const lines = glance.records.map((one) => [one.submission + (one.withdrawn ? ` (${one.withdrawn})` : ""), one.agent || "",
    times(one.speedup), spread(one.over_seed), times(one.gain), times(one.lower), one.at_attempt]);
  for (const one of glance.baselines) lines.push([`line to beat: ${one.name}`, "", one.speedup == null ? "not measured" : times(one.speedup), "", "", "", ""]);
  table("board", [["record"], ["agent"], ["over the seed", "n"], ["95 % interval"], ["over the record before", "n"], ["proven above", "n"], ["attempt", "n"]], lines);
  $("records").textContent = glance.records_in_all > glance.records.length ? `The newest ${glance.records.length} of ${glance.records_in_all} records.` : "";
  table("times", [["workload"], ["record us", "n"], ["seed us", "n"]],
    glance.workloads.map((row) => [row.name, micros(row.record_us), micros(row.seed_us)]));
}

function showRest(glance) {
  table("lenses", [["lens"], ["agents"], ["attempts", "n"], ["KEEPs", "n"], ["device s", "n"]],
    glance.lenses.map((one) => [one.lens, one.agents.join(", "), one.attempts, one.keeps, one.device_seconds.toFixed(1)]));
  list("memory", glance.conclusions.map((one) => `${one.kind} (${one.evidence}): ${one.summary} ${one.lesson}`));
  $("stored").textContent = glance.conclusions_stored ? `${glance.conclusions.length} of ${glance.conclusions_stored} conclusions, as the retention shows them.` : "Nothing was concluded yet.";
  const noise = glance.calibration, canaries = glance.canaries;
  const facts = [["Device", `${glance.device} ${glance.machine}`],
    ["Noise", noise ? `pairs of a kernel with itself differ by ${micros(noise.sd_percent)} %` : "not calibrated yet"],
    ["Smallest provable gain", noise && noise.resolution_percent ? `${micros(noise.resolution_percent)} %` : "unknown"],
    ["Warnings", noise && noise.warnings.length ? noise.warnings.join(" ") : "none"],
    ["Canaries", canaries.same + canaries.delayed ? `record against itself: ${canaries.same_hits} of ${canaries.same} called different; planted delays: ${canaries.delayed_seen} of ${canaries.delayed} seen` : "none yet"]];
  $("device").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
  const alarms = [glance.quarantined && `The device is in quarantine: ${glance.quarantined}`, glance.suspect && `The record is suspect: ${glance.suspect}`].filter(Boolean);
  $("alarm").hidden = !alarms.length;
  $("alarm").textContent = alarms.join(" ");
}
