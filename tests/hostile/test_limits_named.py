#!/usr/bin/env python3
"""Every bound of src/base/limits.h is named in a test, beyond its own definition; so no bound is added untried.

    test_limits_named.py ROOT"""

import re
import sys
from pathlib import Path

UNTRIED = {  # bounds that no test can reach, with the reason
    "LIMIT_TOKEN_PROBES": "the hashes of a vocabulary have a seed that is made of its texts",
}


def main():
    root = Path(sys.argv[1])
    limits = re.findall(r"^#define (LIMIT_\w+)", (root / "src/base/limits.h").read_text(), re.M)
    files = [p for kind in ("*.[ch]", "*.py") for p in (root / "tests").rglob(kind) if p.name != Path(__file__).name]
    tests = "\n".join(p.read_text(errors="replace") for p in files)
    missing = [name for name in limits if not re.search(rf"\b{name}\b", tests) and name not in UNTRIED]
    for name in missing:
        print(f"src/base/limits.h: {name} is tried by no test")
    print(f"{len(limits)} bounds, {len(missing)} without a test")
    sys.exit(bool(missing) or len(limits) < 30)


main()
