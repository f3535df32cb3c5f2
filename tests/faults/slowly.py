"""Preloaded by workers: every job takes FAULTS_SECONDS longer, so that faults hit its middle."""

from __future__ import annotations

import functools
import os
import time

from dhsic.runtime import worker

PAUSE = float(os.environ.get("FAULTS_SECONDS", "0"))
quick = getattr(worker.run, "__wrapped__", worker.run)  # preloading may load this twice


@functools.wraps(quick)
def run(*arguments):
    time.sleep(PAUSE)
    return quick(*arguments)


worker.run = run
