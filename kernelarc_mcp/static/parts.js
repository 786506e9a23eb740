"use strict";
// The page's parts about the search, each from the one document that the server makes.

function ended(glance) {
  return glance.attempts_used >= glance.attempts && !glance.queued && !glance.judging.length;
}

function lastVerdict(glance) {
  return glance.stream.rows.reduce((newest, row) => (row.settled_at > newest ? row.settled_at : newest), "");
}

function showState(glance) {
  const last = lastVerdict(glance), left = `${glance.attempts - glance.attempts_used} of ${glance.attempts} left`;
  const judging = `${glance.judging.length} being judged`;
  if (ended(glance)) say("state", `Finished: all ${glance.attempts} attempts used; last verdict ${moment(last)}.`);
  else if (glance.served) say("state", `Running: ${left}, ${judging}, ${last ? `last verdict ${ago(last)}` : "no verdict yet"}.`);
  else say("state", `No server is running: ${left}, ${last ? `last verdict ${moment(last)}` : "no verdict yet"}.`);
}

function alarms(glance) {
  const waiting = glance.queued + glance.judging.length, found = [];
  if (glance.quarantined) found.push(`The device is in quarantine: ${glance.quarantined}`);
  if (glance.suspect) found.push(`The record is suspect: ${glance.suspect}`);
  if (!glance.served && waiting) found.push(`No server is running: ${counted(waiting, "submission")} ${waiting === 1 ? "waits" : "wait"}; \`kernelarc-mcp serve DIR\` goes on.`);
  for (const warning of glance.calibration ? glance.calibration.warnings : []) found.push(warning.replace(/^It is (?=\d)/, "The calibration is "));
  return found;
}

function showAlarms(glance) {
  const found = alarms(glance), place = $("alarm");
  place.hidden = !found.length;
  if (place.dataset.said === found.join("\n")) return;
  place.dataset.said = found.join("\n");
  place.replaceChildren(...found.map((one) => element("p", one)));
}

// Of a record over the seed, pair by pair; before the first KEEP there is nothing to compare.
function byWorkload(glance) {
  if (glance.record.agent == null) return [];
  const known = glance.workloads.filter((row) => row.over_seed || (row.seed_us && row.record_us));
  return known.map((row) => {
    const ratio = row.over_seed ? row.over_seed.ratio : row.seed_us / row.record_us;
    return { name: row.name, ratio, lower: row.over_seed ? row.over_seed.lower : ratio, upper: row.over_seed ? row.over_seed.upper : ratio };
  });
}

function headline(glance) {
  const record = glance.record;
  if (!glance.curve.judged) return "No verdict yet: the seed is the record.";
  if (record.agent == null) return "No faster kernel is proven yet: the seed is the record.";
  let said = `Proven: ${record.submission} by ${record.agent} is ${times(record.speedup)} as fast as the seed`;
  if (record.over_seed) said += ` (95 % ${spread(record.over_seed)})`;
  if (record.lower) said += ` and at least ${times(record.lower)} as fast as the record before it (measured ${times(record.gain)})`;
  const ratios = byWorkload(glance).map((one) => one.ratio), slowest = factor(Math.min(...ratios)), fastest = factor(Math.max(...ratios));
  if (ratios.length && slowest !== fastest) said += `; ${slowest} to ${fastest} by workload`;
  return `${said}.`;
}

function bestLine(glance) {
  const known = glance.baselines.filter((one) => one.speedup != null).sort((a, b) => b.speedup - a.speedup);
  if (!known.length) return "";
  const [{ name, speedup }] = known, over = glance.record.agent == null ? "" : `; the record is roughly ${number(glance.record.speedup / speedup, 2)} times as fast as it`;
  return `Best line to beat: ${name}: ${times(speedup)} as fast as the seed${over}.`;
}

function showRecord(glance) {
  $("headline").textContent = headline(glance);
  $("rival").textContent = bestLine(glance);
  const chips = [`${glance.attempts - glance.attempts_used} of ${glance.attempts} attempts left`, `${glance.queued} queued`];
  if (glance.judging.length) chips.push(`${glance.judging.length} ${glance.served ? "being judged" : "cut off while being judged"}`);
  const made = chips.map((text) => element("li", text));
  const fallen = glance.records_withdrawn;
  for (const one of VERDICTS) {
    const also = one === "KEEP" && fallen ? `, ${fallen} of them withdrawn` : "";
    made.push(element("li", `${glance.verdicts[one] || 0} ${one}${also}`, one, MEANS[one]));
  }
  made.push(element("li", `${counted(glance.drafts_forced, "draft")} forced`), element("li", `${whole(glance.device_seconds)} s on the device`));
  $("budget").replaceChildren(...made);
  const waits = !glance.served && glance.queued + glance.judging.length;
  const first = "Nothing was submitted yet: `kernelarc-mcp serve DIR` lets agents in and judges, `kernelarc-mcp connect DIR` says how a client joins.";
  if (!glance.attempts_used && !glance.served) list("activity", [first]);
  else list("activity", waits ? [] : glance.activity);
  const some = glance.curve.confirmed_in_all, proven = glance.verdicts.KEEP || 0;
  $("hollow").hidden = !some || (some === proven && !fallen);
  $("hollow").textContent = `Drawn are candidates that came to a confirmation. Hollow: no record (its gain not proven, or a workload slower)${fallen ? ", or withdrawn" : ""}.`;
}

function showStream(page, newest) {
  const heads = [["submission"], ["agent"], ["verdict"], ["reason"], ["over the record then", "n", "Its speed over the record that it was compared with"],
    ["summary"], ["lens"], ["against", "", "The record then"], ["stood on", "", "The branch its agent had"], [`settled (${zone()})`]];
  table("stream", heads, page.rows.map((row) => ({ cls: row.verdict === "KEEP" ? "kept" : "", cells: [
    row.submission + (row.draft ? " (draft)" : ""), row.agent, [row.verdict || row.state, row.verdict, MEANS[row.verdict]],
    [row.reason, "", row.says], times(row.speedup), [row.summary, "wide"], row.lens, row.against, row.parent, moment(row.settled_at, true)] })));
  const numbers = page.rows.map((row) => row.number);
  $("where").textContent = numbers.length ? `Newest settled first. Attempts ${Math.min(...numbers)} to ${Math.max(...numbers)} of ${page.attempts}.` : "";
  $("older").disabled = page.older == null;
  $("newest").disabled = newest;
  $("older").hidden = $("newest").hidden = newest && page.older == null;
  const reasons = new Map(page.rows.filter((row) => row.reason).map((row) => [row.reason, row.says]));
  facts("reasons", [...reasons].sort().map(([code, says]) => [`\`${code}\``, says]));
}

function drafts(one) {
  if (!one.drafts_forced) return "none";
  return `${one.drafts_made} of ${one.drafts_forced}${one.drafting && one.attempts_left > 0 ? ", DRAFT" : ""}`;
}

function showAgents(glance) {
  const costs = new Map(glance.costs.agents.map((row) => [row.agent, row]));
  const heads = [["agent"], ["over the seed", "n", "Its best record, measured beside the seed"], ...VERDICTS.map((one) => [one, "n", MEANS[one]]), ["attempts", "n"], ["left", "n"],
    ["lens", "", "The way of thinking it was given"], ["r", "n", "ACCEPTs and REVERTs since its last KEEP or draft"],
    ["drafts", "", "Made of those that were forced"], ["branch", "", "What it explores from: its last KEEP or ACCEPT"], ["model"], ["tokens", "n"], ["cost", "n"]];
  const rows = glance.agents.map((one) => {
    const cost = costs.get(one.agent);
    return [one.agent, one.best == null ? UNKNOWN : times(one.best), ...VERDICTS.map((verdict) => one.verdicts[verdict] || 0), one.attempts_used,
      one.attempts_left, one.lens, one.r, drafts(one), one.branch, cost.models.join(", ") || UNKNOWN, told(cost.tokens), told(cost.usd)];
  });
  table("agents", ...withoutUnknown(heads, rows, 1));
}

const told = (words) => (words === "unknown" ? UNKNOWN : words);

function showCosts(costs) {
  const cells = (row) => [row.keeps, ...[row.tokens, row.usd, row.keep_tokens, row.keep_usd, row.percent_tokens, row.percent_usd].map(told)];
  const known = costs.total.tokens !== "unknown" || costs.total.usd !== "unknown";
  $("costs-place").hidden = !known;
  list("cost-notes", costs.notes);
  if (!known) return;
  const heads = [["agent"], ["KEEPs", "n"], ["tokens", "n"], ["money", "n"], ["tokens per KEEP", "n"], ["money per KEEP", "n"],
    ["tokens per 1 % gained", "n"], ["money per 1 % gained", "n"]];
  const rows = [...costs.agents.map((row) => [row.agent, ...cells(row)]), ["all together", ...cells(costs.total)]];
  // Where no sum is known, 'no KEEP' tells nothing either.
  const money = costs.total.usd !== "unknown", tokens = costs.total.tokens !== "unknown";
  const kept = heads.map(([title]) => (title.startsWith("money") ? money : title.startsWith("tokens") ? tokens : true));
  table("costs", heads.filter((_, index) => kept[index]), rows.map((row) => row.filter((_, index) => kept[index])));
}

function boardRow(one) {
  return { speedup: one.speedup, cls: one.agent && !one.withdrawn ? "kept" : "", cells: [one.submission + (one.withdrawn ? ` (withdrawn: ${one.withdrawn})` : ""), one.agent || "",
    times(one.speedup), spread(one.over_seed), times(one.gain), times(one.lower), one.at_attempt] };
}

function showBoard(glance) {
  const lines = glance.records.map(boardRow);
  for (const one of glance.baselines) {
    lines.push({ speedup: one.speedup, cls: "rival", cells: [`line to beat: ${one.name}`, "", one.speedup == null ? "not measured" : times(one.speedup), "", "", "", ""] });
  }
  lines.sort((a, b) => (b.speedup || 0) - (a.speedup || 0));
  table("board", [["record"], ["agent"], ["over the seed", "n"], ["95 % interval"], ["over the record before", "n"], ["proven above", "n", "Lower bound of the gain over the record before"], ["attempt", "n"]], lines);
  showOthers(glance.other_models);
  $("board-place").classList.toggle("tall", lines.length > 12);
  $("records").textContent = glance.records_in_all > glance.records.length ? `The newest ${glance.records.length} of ${glance.records_in_all} records.` : "";
  const ratios = new Map(byWorkload(glance).map((one) => [one.name, one.ratio]));
  const timed = glance.workloads.some((row) => row.record_us || row.seed_us);
  $("times-place").hidden = !timed;
  const heads = [["workload"], ["record, µs", "n"], ["seed, µs", "n"], ["over the seed", "n", "Mean of its pairs"], ["95 % interval"],
    ["at least, µs", "n", "What the device's rates allow"], ["of its bound", "n"]];
  table("times", ...withoutUnknown(heads, glance.workloads.map((row) => [row.name, number(row.record_us, 4), number(row.seed_us, 4), times(ratios.get(row.name)),
    spread(row.over_seed), number(row.least_us, 4), row.least_us && row.record_us ? `${number((100 * row.least_us) / row.record_us, 3)} %` : UNKNOWN]), 3));
}

// The record, and the fastest there, on each model that the campaign was told to measure on, too.
function showOthers(boards) {
  $("others-place").hidden = !boards.length;
  list("others-words", boards.map((one) => `${one.model}: ${one.words}`));
  const heads = [["model"], ["record"], ["device"], ["over the seed there", "n"], ["95 % interval"], ["why not"]];
  const rows = boards.flatMap((one) => one.rows.map((row) => [one.model, row.record + (row.withdrawn ? ` (withdrawn: ${row.withdrawn})` : ""), row.device,
    row.over_seed ? times(row.over_seed.ratio) : "", spread(row.over_seed), [row.over_seed ? "" : `${row.reason ? `\`${row.reason}\`: ` : ""}${row.detail}`, "wide"]]));
  table("others", heads, rows);
}

function showRoofline(view) {
  table("dots", [["record"], ["agent"], ["attempt", "n"], ["µs for all workloads", "n"], ["GB/s", "n"], ["matrix GFLOP/s", "n"], ["of its bound", "n"]],
    view.dots.map((dot) => [dot.submission + (dot.withdrawn ? " (withdrawn)" : ""), dot.agent, dot.at_attempt, number(dot.microseconds, 3),
      whole(dot.bytes_per_second / 1e9), view.operations === 0 ? "none" : dot.operations_per_second == null ? UNKNOWN : whole(dot.operations_per_second / 1e9),
      dot.of_bound == null ? UNKNOWN : `${number(100 * dot.of_bound, 3)} %`]));
  $("roof").textContent = roofWords(view);
  list("roof-notes", view.notes);
}

function roofWords(view) {
  const last = view.dots.filter((dot) => !dot.withdrawn).pop();
  if (!last) return view.words;
  const said = `${last.agent ? last.submission : "The seed"} takes ${number(last.microseconds, 3)} µs for one call on every workload and moves ${whole(last.bytes_per_second / 1e9)} GB/s meanwhile`;
  if (last.of_bound == null || !view.bound_us) return `${said}. What the device needs at least is not known.`;
  const by = view.limited_by === "memory" ? "its memory" : `its ${view.limited_by} products`;
  return `${said}. The device needs at least ${number(view.bound_us, 3)} µs, by the speed of ${by}: this reaches ${number(100 * last.of_bound, 3)} % of what is possible.`;
}

function showLenses(glance) {
  table("lenses", [["lens"], ["agents now"], ["attempts", "n"], ["KEEPs", "n", "That stand"], ["its KEEPs together", "n"], ["each attempt", "n", "The same for one attempt, by the geometric mean"], ["device, s", "n"]],
    glance.lenses.map((one) => [one.lens, one.agents.join(", "), one.attempts, one.keeps, one.keeps ? times(1 + one.gain_percent / 100) : "",
      one.keeps ? `${(1 + one.gain_per_attempt / 100).toFixed(4)}x` : "", whole(one.device_seconds)]));
}

// Sections that have nothing to say yet are not there.
function showSections(glance) {
  const judged = glance.curve.judged > 0;
  const there = { stream: glance.stream.rows.length, lineage: glance.stream.rows.length, lenses: glance.lenses.some((one) => one.attempts),
    roofline: glance.roofline.dots.length, memory: glance.conclusions_stored, costs: judged || glance.costs.total.spent.of, board: judged || glance.baselines.length };
  for (const [name, some] of Object.entries(there)) $(`${name}-part`).hidden = !some;
  $("progress").hidden = !judged;
}
