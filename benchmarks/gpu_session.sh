#!/bin/sh
# Campaign, ladder and A/A study in one call: side by side where there are two GPUs, else in turn.
#
#     benchmarks/gpu_session.sh SECONDS OUT [BANK.tar.gz]
#
# After SECONDS all of it has ended; OUT holds a log and an archive for each part. A bank of an earlier
# call is gone on with.
set -u
end=$(($(date +%s) + $1))
out=$2
mkdir -p "$out"
place=$(mktemp -d)
mkdir "$place/bank"
[ $# -lt 3 ] || tar -xzf "$3" -C "$place/bank"
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1

left() {
  echo $((end - $(date +%s) - $1))
}

campaign() {
  "$python" -m benchmarks.gpu_campaign --dir "$place/campaign" --out "$place/found" --seconds "$1" \
    > "$out/campaign.txt" 2>&1
  echo "campaign: exit status $?" >> "$out/campaign.txt"
  tar -czf "$out/campaign-found.tar.gz" -C "$place/found" .
}

studies() {
  "$python" -m benchmarks.gpu_ladder --out "$place/ladder" --seconds 80 --loop 1.5 \
    > "$out/ladder.txt" 2>&1
  echo "ladder: exit status $?" >> "$out/ladder.txt"
  tar -czf "$out/ladder.tar.gz" -C "$place/ladder" .
  "$python" -m benchmarks.gpu_aa measure --bank "$place/bank" --seconds "$(left 15)" \
    > "$out/aa.txt" 2>&1
  echo "A/A: exit status $?" >> "$out/aa.txt"
  tar -czf "$out/bank.tar.gz" -C "$place/bank" .
}

nvidia-smi --query-gpu=name,driver_version,uuid,clocks.sm,power.draw --format=csv > "$out/card.txt"
if [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
  (
    export CUDA_VISIBLE_DEVICES=1
    studies
  ) &
  (
    export CUDA_VISIBLE_DEVICES=0
    campaign "$(left 10)"
  )
  wait
else
  campaign "$(left 150)"
  studies
fi
tail -n 45 "$out/campaign.txt"
cat "$out/ladder.txt"
tail -n 12 "$out/aa.txt"
