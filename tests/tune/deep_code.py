#!/usr/bin/env python3
"""Two demands on `tune --workload code --max-kl 0`, on a real model: its profile is faster than the plain engine on the edit
half that it has not tuned on, with its whole interval; and on fresh code the lower end of the interval is at least 0.97.

    deep_code.py HASTEN MODEL WORK"""

import json
import os
import subprocess
import sys
from pathlib import Path

HASTEN, MODEL, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
WORK.mkdir(parents=True, exist_ok=True)
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("HASTEN_")} | {"XDG_DATA_HOME": str(WORK / "data")}


def ask(*args):
    done = subprocess.run([HASTEN, *args, "--json"], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode:
        sys.exit(f"{' '.join(args)}: exit status {done.returncode}: {done.stderr or done.stdout}")
    return json.loads(done.stdout)


found = ask("tune", MODEL, "--workload", "code", "--max-kl", "0", "--budget", "8m", "-o", str(WORK / "code.yaml"))
print("chosen:", found["chosen"])
r = ask("bench", MODEL, "--workload", "code", "--part", "held", "--profile", str(WORK / "code.yaml"), "-r", "4")
halves = {name: half["decode"] for name, half in r["with"]["halves"].items()}
for name, v in halves.items():
    print(f"{name}: {v['value']:.3f} ({v['lo']:.3f} to {v['hi']:.3f}) x plain")
if not r["with"]["ratio"]["same_answers"]:
    sys.exit("the answers are not the plain engine's")
if halves["edit"]["lo"] <= 1:
    sys.exit("edit: not shown to be faster")
if halves["fresh"]["lo"] < 0.97:
    sys.exit("fresh: the lower bound is below 0.97")
