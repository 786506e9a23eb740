"use strict";
// What was measured on, how far it can be trusted, and what agents concluded.
const FEW = 20;
const MOST_LESSON = 240;
const MOST_SHOWN = 5;

function against(glance) {
  const found = [], noise = glance.calibration, canaries = glance.canaries;
  if (glance.quarantined) found.push("the device is in quarantine");
  if (glance.suspect) found.push("the record is suspect");
  if (noise.biased) found.push("identical arms differ by more than chance");
  if (noise.warnings.some((one) => one.startsWith("It is "))) found.push("the calibration is old");
  if (noise.warnings.some((one) => one.startsWith("The machine changed"))) found.push("the machine changed");
  if (canaries.same && canaries.same_bounds[0] > 0.05) found.push("the record differs from itself too often");
  return found;
}

function trustWords(glance) {
  const noise = glance.calibration, canaries = glance.canaries;
  if (!noise) return "Not calibrated yet: nothing can be judged before that.";
  const found = against(glance), few = canaries.same + canaries.delayed < FEW;
  const verdict = found.length ? `Against it: ${found.join(", ")}` : `Nothing against it, ${few ? "little evidence" : "good evidence"}`;
  const checks = canaries.same ? counted(canaries.same, "self-check") : "no self-check yet";
  const delays = canaries.delayed ? `${canaries.delayed_seen} of ${counted(canaries.delayed, "planted delay")} seen` : "no planted delay yet";
  return `${verdict}: noise ${number(noise.sd_percent, 2)} % (${counted(noise.spread_pairs || noise.pairs, "pair")}), ${checks}, ${delays}.`;
}

function gaugeRows(gauges) {
  const range = (name, one, unit) => {
    if (!one) return [];
    const low = whole(one.lowest), high = whole(one.highest);
    return [[name, `${low === high ? low : `${low} to ${high}`} ${unit}`]];
  };
  return [...range("Clock", gauges.sm_mhz, "MHz"), ...range("Power", gauges.power_w, "W"), ...range("Temperature", gauges.temperature_c, "°C")];
}

function bestRows(rulers) {
  if (!rulers) return [];
  const rows = [["At best, copying", `${whole(rulers.copy_gb_per_second)} GB/s`], ["At best, writing", `${whole(rulers.write_gb_per_second)} GB/s`]];
  if (rulers.empty_kernel_us != null) rows.push(["Empty queued window, taken off", `${number(rulers.empty_kernel_us, 3)} µs`]);
  else rows.push(["Shortest window", `${number(rulers.empty_window_us, 3)} µs`]);
  for (const [dtype, rate] of Object.entries(rulers.matrix_tflops)) rows.push([`At best, ${dtype} products`, `${whole(rate)} TFLOP/s`]);
  return rows;
}

function noiseRows(noise, canaries) {
  if (!noise) return [["Noise", "not calibrated yet"]];
  const rows = [["Noise", `A kernel measured against itself differs by ${number(noise.sd_percent, 2)} % (standard deviation, ${counted(noise.spread_pairs || noise.pairs, "pair")})`]];
  if (noise.resolution_percent) rows.push(["Smallest gain", `At this noise only a gain above about ${number(noise.resolution_percent, 2)} % could still be proven`]);
  rows.push(["Self-checks", canaries.same ? `The record against itself: ${canaries.same_hits || "none"} of ${canaries.same} called different` : "the record was not compared with itself yet"]);
  rows.push(["Planted delays", canaries.delayed ? `${canaries.delayed_seen || "none"} of ${canaries.delayed} seen` : "no delay was planted yet"]);
  rows.push(["Calibrated", `${moment(noise.at)} (${zone()})`]);
  return rows;
}

function showTrust(glance) {
  const noise = glance.calibration;
  $("trust").textContent = trustWords(glance);
  const place = glance.device.startsWith("cpu") ? [["Device", glance.device]]
    : [["GPU", `${noise && noise.toolchain.GPU ? noise.toolchain.GPU : "name not recorded"} (\`${glance.device}\`)`]];
  const host = glance.machine ? [["Host", glance.machine]] : [];
  const tools = noise ? Object.entries(noise.toolchain).filter(([name]) => name !== "GPU").map(([name, version]) => `${name} ${version}`).join(", ") : "";
  const [sound, ...more] = noiseRows(noise, glance.canaries);
  const least = more.filter(([name]) => name === "Smallest gain"), rest = more.filter(([name]) => name !== "Smallest gain");
  facts("device", [...place, ...host, sound, ...least]);
  const further = [...gaugeRows(glance.gauges), ...rest, ...bestRows(noise && noise.rulers), ...(tools ? [["Measured with", tools]] : []), ...(noise && noise.note ? [["Note", noise.note]] : [])];
  facts("device-more", further);
  $("device-more-place").hidden = !further.length;
}

// Lines that a client wrote for itself are not for people.
function lesson(text) {
  const lines = text.split("\n").filter((line) => !/^tuner-[\w-]+:/.test(line));
  const said = lines.join(" ").trim();
  return said.length > MOST_LESSON ? `${said.slice(0, MOST_LESSON).replace(/\s+\S*$/, "")}...` : said;
}

function conclusion(one) {
  const made = element("li");
  made.append(element("b", one.kind, one.kind), ` ${one.evidence} `, element("span", one.verdict, one.verdict, MEANS[one.verdict]),
    ` by ${one.agent} - ${one.summary}`);
  const said = lesson(one.lesson);
  if (said) made.append(" - ", element("span", said, "dim"));
  return made;
}

function showMemory(glance) {
  const sorted = [...glance.conclusions].sort((a, b) => (a.kind === "win" ? 0 : 1) - (b.kind === "win" ? 0 : 1) || b.id - a.id);
  const rest = sorted.slice(MOST_SHOWN);
  $("memory").replaceChildren(...sorted.slice(0, MOST_SHOWN).map(conclusion));
  $("more").replaceChildren(...rest.map(conclusion));
  $("more-memory").hidden = !rest.length;
  $("more-count").textContent = `${rest.length} more`;
  $("stored").textContent = `${glance.conclusions.length} of ${counted(glance.conclusions_stored, "conclusion")}, wins first: those that agents are shown.`;
}
