"""Runs one job of `measuring.measure`: told on standard input, reports to a file."""

import contextlib
import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path

import psutil
from measuring import FAILED, NOT_INSTALLED, OK, OUT_OF_MEMORY

#: How libraries say that memory ran out, other than by MemoryError.
SIGNS_OF_MEMORY = ("memory", "TerminatedWorkerError", "can't start new thread")


def peak_bytes():
    """Highest resident memory of this process.

    `getrusage` alone will not do on Linux: it begins at the size of the parent that started us.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def cpu_seconds():
    """Processor time of this process and its workers, those that have ended included."""
    process, total = psutil.Process(), 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            used = one.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


def run(job):
    """Report of a job."""
    module, name = job["call"].split(":")
    try:
        prepared = getattr(importlib.import_module(module), name)(**job["arguments"])
        work = prepared.__enter__()
    except ImportError as error:
        return {"status": NOT_INSTALLED, "reason": str(error), "peak_bytes": peak_bytes()}
    before = psutil.Process().memory_info().rss
    seconds, cpu = [], []
    try:
        while not seconds or (len(seconds) < job["repeat"] and sum(seconds) < job["budget_s"]):
            start, used = time.perf_counter(), cpu_seconds()
            answer = work()
            seconds.append(time.perf_counter() - start)
            cpu.append(cpu_seconds() - used)
        after = peak_bytes()
    finally:
        prepared.__exit__(None, None, None)
    return {
        "status": OK,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "before_bytes": before,
        "peak_bytes": after,
        "answer": answer,
    }


def failure(error):
    """Report of a job that raised."""
    text = f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"
    memory = isinstance(error, MemoryError) or any(sign in text for sign in SIGNS_OF_MEMORY)
    status = OUT_OF_MEMORY if memory else FAILED
    return {"status": status, "reason": text[:300], "peak_bytes": peak_bytes()}


def main():
    job = json.load(sys.stdin)
    if job["address_space"]:
        resource.setrlimit(resource.RLIMIT_AS, (job["address_space"],) * 2)
    try:
        report = run(job)
    except Exception as error:  # whatever a contender raises is its result
        report = failure(error)
    aside = Path(job["report"] + ".partial")
    aside.write_text(json.dumps(report))
    aside.replace(job["report"])
    sys.stdout.flush()
    os._exit(0)  # a contender's threads and atexit handlers are of no interest


if __name__ == "__main__":
    main()
