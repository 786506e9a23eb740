"use strict";
// Okabe and Ito's colours, told apart without red and green, the last two ours; lighter ones on dark paper.
const PALETTES = {
  light: ["#0072b2", "#d55e00", "#007a59", "#b5568f", "#b37400", "#2a8fc4", "#8c6d31", "#6b6b6b"],
  dark: ["#56b4e9", "#ff9a4d", "#4fd3a8", "#e79ac4", "#f2c14e", "#9fd3f5", "#c9a86a", "#b5b5b5"],
};
const dark = matchMedia("(prefers-color-scheme: dark)");
const places = new Map();
const palette = () => PALETTES[dark.matches ? "dark" : "light"];
const ink = () => (dark.matches ? "#d8d8de" : "#3a3a42");
const grey = () => (dark.matches ? "#a8a8b2" : "#77777f");

function chart(id) {
  const place = places.get(id);
  if (place) return place;
  const made = echarts.init($(id), dark.matches ? "dark" : null, { renderer: "canvas" });
  places.set(id, made);
  return made;
}

// A chart of nothing takes no room.
function show(id, options, height) {
  const empty = !options.series.some((one) => one.data.some((value) => value != null));
  $(id).hidden = empty;
  if (empty) return;
  if (height) $(id).style.height = `${height}rem`;
  const made = chart(id);
  made.resize();
  made.setOption({ backgroundColor: "transparent", animation: false, legend: { type: "scroll", top: 0, itemWidth: 18, itemHeight: 10 },
    grid: { left: 20, right: 40, top: 45, bottom: 35, containLabel: true }, tooltip: { trigger: "item" }, ...options }, true);
}

function agentColour(agents, agent) {
  const colours = palette();
  return colours[Math.max(0, agents.indexOf(agent)) % colours.length];
}

const axis = (name, more) => ({ type: "value", name, nameLocation: "middle", nameGap: 26, ...more });
const filled = (colour) => ({ color: colour, borderColor: colour, borderWidth: 1.5, opacity: 1 });
const hollow = (colour) => ({ color: "transparent", borderColor: colour, borderWidth: 1.5, opacity: 1 });
const labelled = (text, position) => ({ show: true, position: position || "top", formatter: text, color: ink() });

// Lines to beat, dashed, each with its name.
function dashed(lines) {
  return { silent: true, symbol: "none", lineStyle: { type: "dashed", color: grey(), width: 1.5 },
    data: lines.map(({ at, text, vertical }) => ({ [vertical ? "xAxis" : "yAxis"]: at,
      label: { formatter: text, position: vertical ? "start" : "insideEndTop", color: ink() } })) };
}

// Round ends of an axis with room for all values.
function ends(values) {
  const low = Math.min(...values), high = Math.max(...values), step = 10 ** Math.floor(Math.log10(Math.max(high - low, 0.01)));
  const bound = (value, round) => +(round(value / step) * step).toPrecision(6);
  return { min: bound(low - step / 10, Math.floor), max: bound(high + step / 10, Math.ceil) };
}

function progressChart(id, glance, key, name) {
  const at = key === "judged" ? 0 : 1;
  const curve = glance.curve;
  const end = [curve.judged, curve.device_seconds][at];
  // Where a long search changed its record only at its beginning, that is drawn wide.
  const early = at === 0 && curve.judged > 200 && curve.steps[curve.steps.length - 1][0] < curve.judged / 10;
  const along = (value) => (early ? Math.max(1, value) : value);
  const line = curve.steps.map((step) => [along(step[at]), step[2]]);
  line.push([end, line[line.length - 1][1]]);
  const rivals = glance.baselines.filter((one) => one.speedup != null);
  const heights = [...line.map((point) => point[1]), ...curve.confirmed.map((point) => point.over_seed), ...rivals.map((one) => one.speedup)];
  const withdrawn = new Set(glance.records.filter((one) => one.withdrawn).map((one) => one.submission));
  const agents = glance.agents.map((one) => one.agent);
  const series = [{ name: "proven record", type: "line", step: "end", symbol: "none", lineStyle: { width: 2, color: grey() },
    itemStyle: { color: grey() }, data: line,
    markLine: dashed(rivals.map((one) => ({ at: one.speedup, text: `${one.name}: ${factor(one.speedup)}` }))) }];
  for (const agent of agents) {
    const own = curve.confirmed.filter((point) => point.agent === agent);
    if (!own.length) continue;
    const colour = agentColour(agents, agent);
    series.push({ name: agent, type: "scatter", itemStyle: filled(colour), labelLayout: { hideOverlap: true }, data: own.map((point) => {
      const kept = point.verdict === "KEEP" && !withdrawn.has(point.submission);
      return { value: [along(point[key]), +point.over_seed.toFixed(4)], name: `${point.submission} ${point.verdict}`, symbol: "circle", symbolSize: kept ? 10 : 6,
        itemStyle: kept ? filled(colour) : hollow(colour), label: kept ? labelled(point.submission, [13, 9]) : { show: false } };
    }) });
  }
  const xAxis = early ? axis(`${name} (logarithmic)`, { type: "log", min: 1, max: end }) : axis(name, key === "judged" ? { minInterval: 1 } : {});
  show(id, { xAxis, series, yAxis: { type: "value", name: "times the seed", ...ends(heights) } });
}

// A bar from 1, where the seed is, to each ratio, with its interval as a line.
function workloadChart(glance) {
  const rows = byWorkload(glance), values = [1, ...rows.flatMap((row) => [row.lower, row.ratio, row.upper])];
  const low = Math.min(...values), high = Math.max(...values), wide = high / low > 5;
  const scale = wide ? { type: "log", logBase: 2, min: 2 ** Math.floor(Math.log2(low)), max: +(high * 1.2).toPrecision(3), axisLabel: { showMaxLabel: false } } : ends(values);
  const each = rows.length > 12 ? 1.75 : 3, thick = rows.length > 12 ? 12 : 20, colour = palette()[0];
  const bar = (params, api) => {
    const place = api.value(0), at = (value) => api.coord([value, place]), [ratio, lower, upper] = [1, 2, 3].map((index) => api.value(index));
    const [from, y] = at(1), to = at(ratio)[0], left = at(lower)[0], right = at(upper)[0];
    const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: ink(), lineWidth: 1.5 } });
    const behind = ratio < 1 ? Math.min(to, left) - 6 : Math.max(to, right) + 6;
    return { type: "group", children: [
      { type: "rect", shape: { x: Math.min(from, to), y: y - thick / 2, width: Math.abs(to - from), height: thick }, style: { fill: colour } },
      ...(right - left > 1 ? [line(left, y, right, y), line(left, y - 4, left, y + 4), line(right, y - 4, right, y + 4)] : []),
      { type: "text", style: { text: factor(ratio), x: behind, y, fill: ink(), font: "12px sans-serif", align: ratio < 1 ? "right" : "left", verticalAlign: "middle" } }] };
  };
  show("workloads", { legend: { show: false }, grid: { left: 10, right: 70, top: 30, bottom: 35, containLabel: true },
    xAxis: axis(`record, times the seed${wide ? " (logarithmic)" : ""}; lines: 95 % intervals`, scale),
    yAxis: { type: "category", inverse: true, data: rows.map((row) => row.name), axisTick: { show: false } },
    series: [{ name: "record over the seed", type: "custom", renderItem: bar, encode: { x: [1, 2, 3], y: 0 }, clip: false,
      data: rows.map((row, index) => ({ value: [index, row.ratio, row.lower, row.upper], name: `${row.name}: ${factor(row.ratio)} (${factor(row.lower)} to ${factor(row.upper)})` })),
      tooltip: { formatter: (point) => point.name } },
    { type: "scatter", silent: true, symbolSize: 0, data: rows.length ? [[1, 0]] : [], markLine: dashed([{ at: 1, text: "seed", vertical: true }]) }] }, Math.max(1, rows.length) * each + 5);
}

// A lane for each agent, attempts from left to right, an arrow from what each stood on.
function lineageChart(glance) {
  const rows = glance.stream.rows, agents = glance.agents.map((one) => one.agent);
  const numbers = rows.map((row) => row.number), first = Math.min(...numbers), last = Math.max(...numbers);
  const origin = first === 1 ? 0 : first - Math.max(1, Math.round((last - first) / 20));
  const place = new Map(rows.map((row) => [row.submission, [row.number, row.agent]]));
  // What is older than the rows shown stands where the seed does.
  const from = (row) => place.get(row.parent) || [origin, row.agent];
  const parents = new Set(rows.map((row) => row.parent));
  const look = (row) => {
    const colour = agentColour(agents, row.agent);
    if (!row.verdict) return filled(grey());
    return standing(row.verdict) ? filled(colour) : hollow(colour);
  };
  const nodes = rows.map((row) => ({ value: place.get(row.submission), symbolSize: row.verdict === "KEEP" ? 16 : 9, symbol: row.draft ? "rect" : "circle",
    name: `${row.submission} ${row.verdict || row.state}, stood on ${row.parent}`, itemStyle: look(row),
    label: row.verdict === "KEEP" || parents.has(row.submission) ? labelled(row.submission, "bottom") : { show: false } }));
  for (const agent of agents) {
    const older = new Set(rows.filter((row) => row.agent === agent && !place.has(row.parent)).map((row) => row.parent));
    if (!older.size) continue;
    const name = [...older].join(", ");
    nodes.push({ value: [origin, agent], symbol: "diamond", symbolSize: 14, name, itemStyle: filled(grey()), label: labelled(name, "bottom") });
  }
  // The longer an arc, the flatter, so that it stays in its lane.
  const flat = (row) => Math.min(0.2, (0.07 * (last - origin)) / Math.max(1, row.number - from(row)[0]));
  const links = rows.map((row) => ({ coords: [from(row), place.get(row.submission)], lineStyle: { curveness: flat(row) } }));
  show("lineage", { legend: { show: false }, grid: { left: 20, right: 40, top: 25, bottom: 35, containLabel: true },
    xAxis: axis("attempt", { minInterval: 1, min: origin, max: Math.max(last, origin + 1) }),
    yAxis: { type: "category", data: agents, inverse: true, axisLabel: { margin: 18 } },
    series: [{ type: "lines", coordinateSystem: "cartesian2d", silent: true, clip: false, symbol: ["none", "arrow"], symbolSize: 6, data: links,
      lineStyle: { color: grey(), opacity: 0.7, width: 1 } },
    { type: "scatter", clip: false, labelLayout: { hideOverlap: true }, data: nodes }] }, Math.max(12, 6 * agents.length + 5));
}

// One dot for each record beneath the device's roofs: operations over intensity where these are counted, else bytes over attempts.
function rooflineChart(glance) {
  const view = glance.roofline, agents = glance.agents.map((one) => one.agent);
  const classic = view.operations > 0 && view.memory > 0, giga = (value) => +(value / 1e9).toPrecision(5);
  const intensity = classic ? view.operations / view.bytes : 0;
  const dots = view.dots.filter((dot) => !classic || dot.operations_per_second);
  const value = (dot) => (classic ? [+intensity.toPrecision(4), giga(dot.operations_per_second)] : [dot.at_attempt, giga(dot.bytes_per_second)]);
  const dotOf = (dot) => {
    const colour = dot.agent ? agentColour(agents, dot.agent) : grey();
    return { value: value(dot), name: dot.submission + (dot.withdrawn ? " (withdrawn)" : "") + (dot.of_bound == null ? "" : `, ${number(100 * dot.of_bound, 3)} % of its bound`),
      symbol: dot.agent ? "circle" : "diamond", symbolSize: dot.agent ? 10 : 14, itemStyle: dot.withdrawn ? hollow(colour) : filled(colour),
      label: labelled(dot.submission, classic || !dot.agent ? "right" : "bottom") };
  };
  const series = [];
  // Each roof has its name on it: the memory's slope at its left end, the others at their right.
  const roof = (name, data, left) => series.push({ name, type: "line", symbol: "circle", symbolSize: 1, lineStyle: { color: grey(), width: 2, type: "dashed" },
    itemStyle: { color: grey() }, silent: true, data: data.map((value, index) => ({ value,
      label: index === (left ? 0 : 1) ? { ...labelled(name, left ? [6, -28] : "top"), align: left ? "left" : "right" } : { show: false } })) });
  let xAxis, yAxis;
  if (classic) {
    const rates = Object.entries(view.matrix), low = intensity / 10;
    const high = Math.max(intensity, ...rates.map(([, rate]) => rate / view.memory)) * 10;
    const top = Math.max(view.memory * (rates.length ? 0 : high), ...rates.map(([, rate]) => rate));
    roof("memory", [[low, giga(view.memory * low)], [top / view.memory, giga(top)]], true);
    for (const [dtype, rate] of rates) roof(`${dtype} products`, [[rate / view.memory, giga(rate)], [high, giga(rate)]]);
    xAxis = axis("operations per byte", { type: "log", min: low, max: high, axisLabel: { formatter: (at) => number(at, 2) } });
    yAxis = { type: "log", name: "GFLOP/s" };
  } else {
    const newest = Math.max(1, ...dots.map((dot) => dot.at_attempt)), last = newest + Math.max(1, Math.round(newest / 20)), rates = dots.map((dot) => dot.bytes_per_second);
    const wide = view.memory && view.memory / Math.min(...rates) > 50;
    if (view.memory) roof(`what the memory allows: ${whole(view.memory / 1e9)} GB/s`, [[0, giga(view.memory)], [last, giga(view.memory)]], false);
    xAxis = axis("attempt", { min: 0, max: last, minInterval: 1 });
    yAxis = wide ? { type: "log", name: "GB/s (logarithmic)", min: 10 ** Math.floor(Math.log10(giga(Math.min(...rates)) / 2)) } : { type: "value", name: "GB/s", min: 0 };
  }
  for (const name of ["seed", ...agents]) {
    const own = dots.filter((dot) => (dot.agent || "seed") === name);
    if (own.length) series.push({ name, type: "scatter", symbol: name === "seed" ? "diamond" : "circle", itemStyle: filled(name === "seed" ? grey() : agentColour(agents, name)),
      labelLayout: { hideOverlap: true }, data: own.map(dotOf) });
  }
  const named = series.filter((one) => one.type === "scatter").map((one) => one.name);
  show("roofline", { xAxis, yAxis, series, legend: { type: "scroll", top: 0, itemWidth: 18, itemHeight: 10, data: named } });
}

function draw(glance) {
  if (glance.curve.judged) {
    progressChart("by-attempt", glance, "judged", "verdicts");
    progressChart("by-seconds", glance, "device_seconds", "device seconds");
  }
  workloadChart(glance);
  if (glance.stream.rows.length) lineageChart(glance);
  if (glance.roofline.dots.length) rooflineChart(glance);
}

function drawAnew(glance) {
  places.forEach((made) => made.dispose());
  places.clear();
  if (glance) draw(glance);
}

addEventListener("resize", () => places.forEach((made) => made.resize()));
