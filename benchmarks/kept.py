"""Kept results: small JSON files in `kept/`, of which `page.py` makes docs/benchmarks.md.

A file has the rows of one script, the command that gave them, its date, the commit, the versions of
the packages compared, and the machine. Scripts write one with ``--keep NAME``.
"""

import datetime as dt
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from measuring import version_of

from dhsic.runtime.cores import usable_cores

HERE = Path(__file__).parent
FOLDER = HERE / "kept"


def add_option(parser):
    """Add ``--keep`` to a parser."""
    parser.add_argument("--keep", metavar="NAME", help="write the results to kept/NAME.json too")


def keep(options, rows, packages=(), **more):
    """Write rows to kept/NAME.json if ``--keep NAME`` was passed; `more` replaces its facts."""
    if not options.keep:
        return
    found = {name: version_of(name) for name in packages}
    facts = {
        "command": command(),
        "date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        "commit": commit(),
        "versions": {name: version for name, version in found.items() if version},
        "machine": machine(),
    }
    FOLDER.mkdir(exist_ok=True)
    head = json.dumps(facts | more, indent=1)[:-2]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    (FOLDER / f"{options.keep}.json").write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')


def load(name):
    """Facts and rows of kept/NAME.json."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def command():
    """Command line of this process, to be run in `benchmarks/`; folders are written as FOLDER."""
    script = Path(sys.argv[0])
    is_module = script.name == "__main__.py"
    words = ["-m", script.parent.name] if is_module else [script.name]
    arguments = [
        "FOLDER" if os.sep in word and Path(word).exists() else word for word in sys.argv[1:]
    ]
    if "--keep" in arguments:
        at = arguments.index("--keep")
        del arguments[at : at + 2]
    quoted = [f'"{word}"' if " " in word else word for word in arguments]
    return " ".join(["python", *words, *quoted])


def commit():
    """Commit of the working tree, with -dirty where files have changed."""
    git = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def machine():
    """Cores, processor and Python."""
    cpus = Path("/proc/cpuinfo")
    names = (
        [line for line in cpus.read_text().splitlines() if "model name" in line]
        if cpus.exists()
        else []
    )
    name = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{usable_cores()} cores of {name}, Python {platform.python_version()}"


def exists(name):
    """Whether kept/NAME.json is there."""
    return (FOLDER / f"{name}.json").is_file()
