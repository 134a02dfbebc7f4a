"""python -m deformkit.mx_driving script.py [ARGUMENTS]: runs a script that was written for mx_driving, on the CPU.

Python processes that it starts find the same."""

import os
import runpy
import sys
from pathlib import Path

USAGE = "usage: python -m deformkit.mx_driving script.py [ARGUMENTS]"


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(USAGE, file=sys.stderr)
        raise SystemExit(0 if len(sys.argv) > 1 else 2)
    script = sys.argv[1]
    if not os.path.exists(script):
        raise SystemExit(f"deformkit.mx_driving: no such file: {script}")
    sys.argv = sys.argv[1:]
    # As python script.py would have it, with the stand-ins before everything else.
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    stand_ins = str(Path(__file__).parent / "standin")
    sys.path.insert(0, stand_ins)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (stand_ins, os.environ.get("PYTHONPATH"))))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
