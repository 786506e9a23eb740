"use strict";
// Tokens stay in this tab. Where a dashboard keeps its own is its path without the slash, as dashboard.js has it.
const KEPT = "kernelarc-tokens";
const $ = (id) => document.getElementById(id);

function tokens() {
  return JSON.parse(sessionStorage.getItem(KEPT) || "[]");
}

function cell(row, content) {
  const made = row.insertCell();
  made.append(content);
}

function show(campaign, token) {
  const row = $("rows").insertRow();
  const link = document.createElement("a");
  link.href = `.${campaign.path}`;
  link.textContent = campaign.name;
  link.addEventListener("click", () => sessionStorage.setItem(`kernelarc-token${link.pathname.slice(1)}`, token));
  cell(row, link);
  cell(row, campaign.why ? `${campaign.state}: ${campaign.why}` : campaign.state);
  const found = campaign.numbers;
  if (!found) return;
  cell(row, found.problem);
  cell(row, found.device);
  cell(row, `${found.speedup.toFixed(3)}x (${found.record})`);
  cell(row, `${found.attempts_used} of ${found.attempts}`);
  cell(row, String(found.queued + found.judging));
  cell(row, String(found.agents));
}

async function look() {
  const known = new Map();
  const kept = [];
  let unknown = 0;
  for (const token of tokens()) {
    const answer = await fetch("./campaigns", { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
    if (answer.status === 401) {
      unknown += 1;
      continue;
    }
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    kept.push(token);
    for (const campaign of (await answer.json()).campaigns) known.set(campaign.name, [campaign, token]);
  }
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
  $("rows").replaceChildren();
  for (const name of [...known.keys()].sort()) show(...known.get(name));
  $("table-part").hidden = !known.size;
  $("said").textContent = unknown ? "No campaign knows that token." : known.size ? "" : "A token is needed.";
}

async function again() {
  try {
    await look();
  } catch (error) {
    $("said").textContent = `Not connected (${error.message}). What is shown may be old.`;
  }
}

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = $("token").value.trim();
  sessionStorage.setItem(KEPT, JSON.stringify([...new Set([...tokens(), given])]));
  $("token").value = "";
  again();
});
setInterval(again, 15000);
again();
