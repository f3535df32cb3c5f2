"""Draw `region.png`: a region of simulated tests, as `tests/test_plot.py` draws it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

import test_plot  # noqa: E402  # on the path only after the line above

test_plot.PICTURES["region"]().figure.savefig(HERE / "region.png", dpi=130)
