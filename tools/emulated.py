"""Run the notebooks as on other machines: two emulated processors, one and two threads, two Pythons; then print a table.

  python tools/emulated.py [--other VENV] [--rows 1,4] [--jobs N] [NOTEBOOK ...]

The emulation takes instructions away from the libraries that choose their kernels by what the processor can do (PyTorch's own,
oneDNN, OpenBLAS, NumPy): sums run in another order, and last digits differ. Four rows bring every pair of the three together.
Without --other, an environment made by `make VENV=... PYTHON=...`, the rows of the second Python are left out, and say so.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROCESSORS = {
    "without AVX": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    },
    "AVX2, no AVX-512": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    },
}
ROWS = (
    ("without AVX", 1, "this"),
    ("AVX2, no AVX-512", 2, "this"),
    ("without AVX", 2, "other"),
    ("AVX2, no AVX-512", 1, "other"),
)


def main(argv=None) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    ap.add_argument("--other", default="", help="an environment with another Python")
    ap.add_argument("--rows", default="1,2,3,4", help="which of the four rows")
    ap.add_argument("--jobs", default="2", help="notebooks at a time")
    ap.add_argument("what", nargs="*", help="notebooks, or --quick (default: all)")
    args, extra = ap.parse_known_args(argv)
    table, bad = [], 0
    for n in map(int, args.rows.split(",")):
        processor, threads, which = ROWS[n - 1]
        if which == "other" and not args.other:
            why = "left out: name its environment with --other (make: OTHER=...)"
            table.append((n, processor, threads, "another Python", why))
            continue
        python = str(Path(args.other) / "bin" / "python") if which == "other" else sys.executable
        version = subprocess.check_output([python, "-V"], text=True).strip()
        env = {**os.environ, **PROCESSORS[processor], "OMP_NUM_THREADS": str(threads)}
        env["PATH"] = f"{Path(python).parent}:{env['PATH']}"
        command = [python, "tools/run_notebooks.py", "--jobs", args.jobs, *extra, *args.what]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        run = subprocess.Popen(command, cwd=ROOT, env=env, **how)
        print(f"{version}, {processor}, {threads} thread{'s' * (threads > 1)}", flush=True)
        last = []
        for line in run.stdout:
            last = [*last[-1:], line.strip()]
            if not line.startswith("ok "):
                print(line, end="", flush=True)
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed", last[-1] if last else "")
        bad += run.wait() != 0 or not counts
        result = f"{last[-1]}, {last[0]}" if counts else "did not end"
        table.append((n, processor, threads, version, result))
    print("\nrow  processor          threads  Python          result")
    for n, processor, threads, version, result in table:
        print(f"{n:3}  {processor:18} {threads:7}  {version:15} {result}")
    print(f"{len(table) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
