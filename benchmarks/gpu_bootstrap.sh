#!/bin/sh
# Makes this tree importable, with its dependencies from a folder of wheels, for the python that has torch:
#
#     benchmarks/gpu_bootstrap.sh WHEELS
#
# For throwaway machines without a network. Wheels are installed into that python's own environment,
# because a guard is started with -I, which ignores PYTHONPATH, and its sandbox shows that environment.
# With Ray's wheel among them (benchmarks/small_ray.py makes one of 24 MB) a fleet can be started.
set -eu
python=${PYTHON:-python3}
root=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)
"$python" -m pip install --quiet --no-index --no-deps --no-compile --disable-pip-version-check \
  --root-user-action=ignore --upgrade "$1"/*.whl
site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
printf '%s\n' "$root" "$root/guard" "$root/memory" > "$site/kernelarc-tree.pth"
command=$("$python" -c 'import os, sys; print(os.path.join(os.path.dirname(sys.executable), "kernelarc-mcp"))')
{
  echo "#!$("$python" -c 'import sys; print(sys.executable)')"
  echo 'import sys'
  echo 'from kernelarc_mcp.cli.main import main'
  echo 'sys.exit(main())'
} > "$command"
chmod +x "$command"
"$command" version
if ls "$1"/ray-*.whl > /dev/null 2>&1; then
  "$python" -c 'import ray; print("ray", ray.__version__)'
fi
