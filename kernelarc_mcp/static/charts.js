"use strict";
// Okabe and Ito's colours, told apart without red and green, the last two ours.
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const places = new Map();

function chart(id) {
  const place = places.get(id);
  if (place) return place;
  const made = echarts.init(document.getElementById(id), dark.matches ? "dark" : null, { renderer: "canvas" });
  places.set(id, made);
  return made;
}

// A chart of nothing takes no room.
function show(id, options) {
  const empty = !options.series.some((one) => one.data.some((value) => value != null));
  document.getElementById(id).hidden = empty;
  if (empty) return;
  chart(id).setOption({ backgroundColor: "transparent", animation: false, legend: { type: "scroll", top: 0 },
    grid: { left: 55, right: 25, top: 40, bottom: 45, containLabel: true }, tooltip: { trigger: "item" }, ...options }, true);
}

function agentColour(agents, agent) {
  return PALETTE[agents.indexOf(agent) % PALETTE.length];
}

function progressChart(id, glance, key, name) {
  const at = key === "judged" ? 0 : 1;
  const curve = glance.curve;
  const end = [curve.judged, curve.device_seconds][at];
  const line = curve.steps.map((step) => [step[at], step[2]]);
  line.push([end, line[line.length - 1][1]]);
  const agents = glance.agents.map((one) => one.agent);
  const series = [{ name: "best record", type: "line", step: "end", symbol: "none", lineStyle: { width: 2, color: "#888" },
    itemStyle: { color: "#888" }, data: line }];
  for (const agent of agents) {
    const own = curve.confirmed.filter((point) => point.agent === agent);
    if (!own.length) continue;
    series.push({ name: agent, type: "scatter", symbolSize: 8, itemStyle: { color: agentColour(agents, agent) },
      data: own.map((point) => ({ value: [point[key], point.over_seed], name: `${point.submission} ${point.verdict}` })) });
  }
  show(id, { xAxis: { type: "value", name, nameLocation: "middle", nameGap: 26 },
    yAxis: { type: "value", name: "times the seed", scale: true }, series });
}

function workloadChart(glance) {
  const rows = glance.workloads;
  const ratios = rows.map((row) => (row.seed_us && row.record_us ? +(row.seed_us / row.record_us).toFixed(3) : null));
  show("workloads", { xAxis: { type: "category", data: rows.map((row) => row.name), axisLabel: { rotate: 30 } },
    yAxis: { type: "value", name: "times the seed" },
    series: [{ name: "record over the seed", type: "bar", itemStyle: { color: PALETTE[0] }, data: ratios }] });
}

// A lane for each agent, attempts from left to right, an arrow from what each stood on.
function lineageChart(glance) {
  const agents = glance.agents.map((one) => one.agent);
  const place = new Map(glance.stream.rows.map((row) => [row.submission, [row.number, row.agent]]));
  const standing = (row) => row.verdict === "KEEP" || row.verdict === "ACCEPT";
  const nodes = glance.stream.rows.map((row) => ({ value: place.get(row.submission), symbolSize: row.verdict === "KEEP" ? 18 : 10,
    name: `${row.submission} ${row.verdict || row.state}, stood on ${row.parent}`,
    itemStyle: { color: agentColour(agents, row.agent), borderColor: "#888", borderWidth: row.draft ? 3 : 0, opacity: standing(row) ? 1 : 0.55 },
    label: { show: row.verdict === "KEEP", position: "bottom", formatter: row.submission } }));
  const links = glance.stream.rows.filter((row) => place.has(row.parent)).map((row) => ({ coords: [place.get(row.parent), place.get(row.submission)] }));
  show("lineage", { legend: { show: false }, xAxis: { type: "value", name: "attempt", nameLocation: "middle", nameGap: 26, minInterval: 1, scale: true },
    yAxis: { type: "category", data: agents, inverse: true },
    series: [{ type: "lines", coordinateSystem: "cartesian2d", silent: true, symbol: ["none", "arrow"], symbolSize: 6, data: links,
      lineStyle: { color: "#888", curveness: 0.2, width: 1 } }, { type: "scatter", data: nodes }] });
}

function draw(glance) {
  progressChart("by-attempt", glance, "judged", "verdicts");
  progressChart("by-seconds", glance, "device_seconds", "device seconds");
  workloadChart(glance);
  lineageChart(glance);
  show("roofline", glance.roofline_chart);
}

function drawAnew(glance) {
  places.forEach((made) => made.dispose());
  places.clear();
  if (glance) draw(glance);
}

addEventListener("resize", () => places.forEach((made) => made.resize()));
