"""Pictures of reports at three widths: ``python docs/pictures/report.py``, which needs chromium.

The demo's report, and that of tests of a million variants of 200 people, some minutes in all.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from demo import TARGET, run

HERE = Path(__file__).parent
#: Picture: report, width and height of the window, part of its width that is kept.
SHOTS = {
    "report_demo.png": ("demo.html", 1400, 1500, 0.6),
    "report_phone.png": ("demo.html", 390, 1200, 1),
    "report_million.png": ("million.html", 820, 1500, 0.7),
}


def make(folder):
    """Two reports: of `make demo`, and of a million variants."""
    store, out = folder / "demo.vcz", folder / "selection.zarr"
    size = ("--samples", 1000, "--variants", 10_000)
    run("simulate", store, *size, "--trait", "quantitative", "--seed", 7)
    run("select", store, *TARGET, "-n", 50, "--out", out)
    run("pairs", store, *TARGET, "-n", 10, "--selection", out, "--out", folder / "pairs.tsv")
    run("report", out, "--pairs", folder / "pairs.tsv", "-o", folder / "demo.html")
    store, out = folder / "million.vcz", folder / "tests.zarr"
    size = ("--samples", 200, "--variants", 1_000_000)
    run("simulate", store, *size, "--trait", "quantitative", "--seed", 7)
    run("test", store, *TARGET, "--out", out)
    run("report", out, "-o", folder / "million.html")


def shoot(folder):
    """Open the reports as a reader would, and keep what is seen."""
    for name, (report, width, height, part) in SHOTS.items():
        frame = folder / "frame.html"  # a window of chromium is 500 wide at least, a frame is not
        frame.write_text(
            f"<body style='margin:0'><iframe src='{report}' style='border:0;width:{width}px;"
            f"height:{height}px'></iframe>"
        )
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--virtual-time-budget=5000", f"--user-data-dir={folder / 'profile'}"]
        command += [f"--window-size={max(width, 500)},{height}", f"--screenshot={HERE / name}"]
        subprocess.run([*command, frame.as_uri()], check=True, capture_output=True, timeout=120)
        picture = Image.open(HERE / name).convert("RGB").crop((0, 0, width, height))
        size = (round(part * width), round(part * height))
        small = picture.resize(size, Image.Resampling.LANCZOS).quantize(dither=Image.Dither.NONE)
        small.save(HERE / name, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:  # a folder that has the reports
        shoot(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as made:
            make(Path(made))
            shoot(Path(made))
