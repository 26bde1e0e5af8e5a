#!/usr/bin/env python3
"""`check --shard` on recorded sequences: nothing wrong, and few OpInfos refused.

    shard_test.py FACTS PROGRAM

Refusals are those of the reference, or depend on data; the share that runs may only grow, and so
does the number below.
"""

import json
import subprocess
import sys

LEAST_SHARE = 98.5  # percent of OpInfos that run in every placement


def main():
    facts, program = sys.argv[1:]
    run = subprocess.run([program, "--json", "--shard", facts], capture_output=True,
                         text=True)
    if run.returncode != 0:
        sys.exit(f"exit code {run.returncode}\n{run.stdout}{run.stderr}")
    table = json.loads(run.stdout)
    share = table["run_in_every_placement_percent"]
    for kind in ("even", "uneven"):
        counts = table[kind]
        print(f"{kind}: {counts['right']} of {counts['opinfos']} OpInfos right in every placement")
        if counts["wrong"] > 0 or counts["opinfos"] < 300:
            sys.exit(f"{counts}")
    print(f"{share:.1f} % run in every placement")
    if share < LEAST_SHARE:
        sys.exit(f"at least {LEAST_SHARE} % did")


if __name__ == "__main__":
    main()
