#!/usr/bin/env python3
"""Makes shardlab_record.py, the one file that users copy, from its parts in recorder/.

    join.py            writes it
    join.py --check    fails if it is not what its parts make, or a part is too long to read
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
PARTS = "start launch head arguments file moves program values calls typed recording dump cuda job "
PARTS = [*PARTS.split(), "script"]
MOST_LINES = 600
NOTE = "# Made by join.py from the parts in recorder/, which are to be read and changed.\n"


def joined():
    texts = [(HERE / "recorder" / (name + ".py")).read_text(encoding="utf-8") for name in PARTS]
    return texts[0] + "\n" + NOTE + "\n\n" + "\n\n".join(texts[1:])


def faults():
    found = []
    here = {path.stem for path in (HERE / "recorder").glob("*.py")}
    for name in sorted(here ^ set(PARTS)):
        found.append(f"recorder/{name}.py: it is not both a file and one of join.py's PARTS")
    for name in sorted(here & set(PARTS)):
        text = (HERE / "recorder" / (name + ".py")).read_text(encoding="utf-8")
        if text.count("\n") > MOST_LINES:
            found.append(f"recorder/{name}.py: it has over {MOST_LINES} lines")
    if not found and (HERE / "shardlab_record.py").read_text(encoding="utf-8") != joined():
        found.append("shardlab_record.py is not what its parts make: sim/record_torch/join.py")
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        wrong = faults()
        print("\n".join(wrong))
        sys.exit(1 if wrong else 0)
    (HERE / "shardlab_record.py").write_text(joined(), encoding="utf-8")
