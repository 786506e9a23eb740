"use strict";
const DATA = "./dashboard/data";
// A server of several campaigns shows each below a path of its own, with a token of its own.
const KEPT = `kernelarc-token${location.pathname.slice(1)}`;
let last = null, paged = null;

// A link may carry the token behind '#', which browsers send to no server; it does not stay in the address.
if (location.hash.startsWith("#token=")) {
  sessionStorage.setItem(KEPT, decodeURIComponent(location.hash.slice(7)));
  history.replaceState(null, "", location.pathname);
}

function ask(path, signal) {
  const token = sessionStorage.getItem(KEPT);
  return fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store", signal });
}

// Tells the new verdicts to a screen reader, and keeps an older page of submissions in its place.
function news(glance) {
  if (!paged) showStream(glance.stream, true);
  if (!last || glance.seq === last.seq) return;
  const known = new Set(last.stream.rows.filter((row) => row.verdict).map((row) => row.submission));
  const fresh = glance.stream.rows.filter((row) => row.verdict && !known.has(row.submission));
  const told = fresh.slice(0, 5).map((row) => `${row.submission} of ${row.agent}: ${row.verdict}, ${row.says}`);
  if (fresh.length > 5) told.push(`${fresh.length - 5} more verdicts.`);
  if (told.length) $("news").textContent = told.join(" ");
}

async function older() {
  try {
    const answer = await ask(`${DATA}/submissions?before=${(paged || last.stream).older}`);
    if (answer.status === 401) return refuse(401);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    paged = await answer.json();
    showStream(paged, false);
  } catch (error) {
    $("where").textContent = `Older attempts could not be read (${error.message}).`;
  }
}

function newest() {
  paged = null;
  showStream(last.stream, true);
}

function showAll(glance) {
  $("main").hidden = false;
  $("door").hidden = true;
  $("title").textContent = `${glance.campaign}: ${glance.problem}`;
  document.title = `${times(glance.record.speedup)} ${glance.campaign}`;
  showState(glance);
  showAlarms(glance);
  say("about", glance.about.said);
  facts("problem", glance.about.facts);
  showSections(glance);
  showRecord(glance);
  showTrust(glance);
  showBoard(glance);
  showAgents(glance);
  news(glance);
  showRoofline(glance.roofline);
  showLenses(glance);
  showCosts(glance.costs);
  showMemory(glance);
  draw(glance);
  last = glance;
}

function refuse(status) {
  $("main").hidden = true;
  $("door").hidden = false;
  say("state", "");
  say("link", "A token is needed.");
  $("refused").textContent = status === 401 && sessionStorage.getItem(KEPT) ? "This campaign does not know that token." : "";
  sessionStorage.removeItem(KEPT);
  $("token").focus();
}

async function look() {
  const answer = await ask(DATA);
  if (answer.status === 401) return refuse(401);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  showAll(await answer.json());
  say("link", "Connected.");
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
      say("link", `Not connected (${error.message}); trying again. What is shown may be old.`);
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
$("older").addEventListener("click", older);
$("newest").addEventListener("click", newest);
setInterval(() => last && showState(last), 30000);
dark.addEventListener("change", () => drawAnew(last));
open();
