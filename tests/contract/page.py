"""page.py PAGE OUT: the first block of C of a page of documentation, as a file."""
import re
import sys
from pathlib import Path

page, out = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
block = re.search(r"^```c\n(.*?)^```$", page, re.S | re.M)
if not block:
    sys.exit(f"{sys.argv[1]}: no block of C (expected one)")
out.write_text(block.group(1))
