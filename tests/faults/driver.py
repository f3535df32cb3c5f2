"""The command line, with small data left on the cluster to the end."""

from __future__ import annotations

from dhsic.cli import main
from dhsic.passes import survivors

if __name__ == "__main__":
    survivors.HOME_BYTES = -1
    main(prog_name="dhsic")
