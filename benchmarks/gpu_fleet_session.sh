#!/bin/sh
# A fleet over all GPUs of this machine, measured in one call or in two; raw results are in OUT all along.
#
#     benchmarks/gpu_fleet_session.sh first  OUT [SECONDS]     throughput and agreement
#     benchmarks/gpu_fleet_session.sh second OUT [SECONDS]     interference, and Ray beside a local guard
#     benchmarks/gpu_fleet_session.sh all    OUT [SECONDS]
#     benchmarks/gpu_fleet_session.sh one    OUT [SECONDS]     what one GPU can show: Ray beside a local guard, throughput
#
# Everything has ended after SECONDS (default 500). OUT has three files: log.txt, raw.tar.gz, which is written anew
# every 20 seconds, so that a call that is cut off loses no more than that, and tables.md. A part that fails or hangs keeps
# none of the later ones back. Afterwards: unpack each raw.tar.gz into a folder, and
#
#     python -m benchmarks.fleet_gpus_report FOLDER... --out docs/measurements
#
# FLEET_CORES, as in 0-15: the cores that all of it keeps to, where others work on the rest. FLEET_OPTIONS goes to
# benchmarks.fleet_gpus, as in "--devices 2" for a trial without GPUs. PYTHON is the python that has torch.
set -u
begin=$(date +%s)
which=$1
out=$2
end=$((begin + ${3:-500}))
place=$(mktemp -d)
mkdir -p "$out" "$place/raw"
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
pin=${FLEET_CORES:+taskset -c $FLEET_CORES}
export PYTHONUNBUFFERED=1

say() {
  echo "$(($(date +%s) - begin)) s: $*" | tee -a "$out/log.txt"
}

keep() {
  tar -czf "$out/.raw" -C "$place/raw" . 2>> "$out/log.txt" && mv "$out/.raw" "$out/raw.tar.gz"
}

# part NAME PERCENT: run a part for so much of what is left.
part() {
  seconds=$(((end - 15 - $(date +%s)) * $2 / 100))
  if [ "$seconds" -lt 30 ]; then
    say "$1: not begun, $seconds s were left for it"
    return
  fi
  say "$1: $seconds s"
  # shellcheck disable=SC2086
  timeout -k 15 $((seconds + 15)) $pin "$python" -m benchmarks.fleet_gpus "$1" --out "$place/raw" \
    --seconds "$seconds" ${FLEET_OPTIONS:-} >> "$out/log.txt" 2>&1
  say "$1: exit status $?"
  keep
}

nvidia-smi --query-gpu=name,driver_version,uuid,clocks.sm,power.draw,pci.bus_id --format=csv \
  > "$place/raw/card.txt" 2>&1
git rev-parse HEAD > "$place/raw/commit.txt" 2> /dev/null || true
# shellcheck disable=SC2086
$pin nproc > "$place/raw/cores.txt"
while sleep 20; do keep; done &
keeper=$!

case $which in
  first)
    part throughput 72
    part agreement 100
    ;;
  second)
    part interference 58
    part beside 100
    ;;
  all)
    part throughput 45
    part agreement 25
    part interference 60
    part beside 100
    ;;
  one)
    part beside 56
    part throughput 100
    ;;
  *) say "$which: expected first, second, all or one" ;;
esac
kill "$keeper"
wait "$keeper" 2> /dev/null
left=$((end - $(date +%s)))
timeout $((left > 5 ? left : 5)) "$python" -m benchmarks.fleet_gpus_report "$place/raw" \
  --out "$place/report" --submissions 0 > "$out/tables.md" 2>> "$out/log.txt"
keep
tail -n 30 "$out/log.txt"
cat "$out/tables.md"
