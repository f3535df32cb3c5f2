"""A plan in words: rows of a label and what it says, shared by terminal and notebook."""

from __future__ import annotations

import math
import textwrap
from operator import attrgetter
from typing import TYPE_CHECKING

from dhsic.memory import human

if TYPE_CHECKING:
    from dhsic.plans.plan import Plan
    from dhsic.plans.rounds import Work
    from dhsic.plans.time import Expected

#: Columns of a terminal, and of the labels.
WIDTH, LABELS = 100, 12
#: Part of the time of fewer workers that more of them must save to be worth asking for.
NO_FASTER = 0.95


def as_text(plan: Plan) -> str:
    """All of it, lines of at most `WIDTH` characters."""
    lines = [f"Plan of a run: {plan.description}"]
    for label, told in rows(plan):
        lines += _wrapped(label, told)
    if plan.times:
        lines.append("")
        lines.append(f"{'':<{LABELS}}{'expected time':<28}on")
        for time, where in times(plan):
            lines.append(f"{'':<{LABELS}}{time:<28}{where}")
    lines.append("")
    for number, told in enumerate(plan.assumed):
        lines += _wrapped("assumed" if number == 0 else "", f"- {told}")
    return "\n".join(lines)


def rows(plan: Plan) -> list[tuple[str, str]]:
    """Label and what it says."""
    out = [("data", _data(plan)), ("values", plan.values), ("blocks", _blocks(plan))]
    out.append(("rounds", _rounds(plan)))
    if plan.work is not None:
        out += [("reading", _reading(plan.work)), ("computing", _computing(plan.work))]
        out.append(("survivors", plan.work.survivors))
    out.append(("memory", f"this process: peak memory {plan.promise}"))
    if plan.worker is not None:
        out.append(("", f"each worker: {plan.worker}"))
        if plan.work is not None:
            out.append(("broadcast", f"up to {human(plan.work.state_bytes)} to a worker a round"))
    out.append(("rates", _rates(plan)))
    return out


def times(plan: Plan) -> list[tuple[str, str]]:
    """Expected time, and on what."""
    out: list[tuple[str, str]] = []
    best: dict[bool, Expected] = {}  # of clusters, and of threads
    for time in plan.times:
        noun = "worker of a cluster" if time.on_cluster else "thread"
        where = f"{time.n_workers:,} {noun.replace('worker', 'workers')}"
        if time.n_workers == 1:
            where = f"1 {noun}"
        elif not time.on_cluster:
            where += "s"
        known = best.get(time.on_cluster)
        if known is not None and time.seconds > NO_FASTER * known.seconds:
            where += f", no faster than {known.n_workers:,}"
        elif known is None or time.seconds < known.seconds:
            best[time.on_cluster] = time
        told = duration(time.seconds)
        if time.at_most > 1.05 * time.seconds:
            told += f" to {duration(time.at_most)}"
        out.append((told, where))
    return out


def duration(seconds: float) -> str:
    """Time for people, two digits or so.

    >>> [duration(s) for s in (0.123, 12.3, 400, 9000)]
    ['0.1 s', '12 s', '7 min', '2.5 h']
    """
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _data(plan: Plan) -> str:
    data = plan.data
    told = (
        f"{data.n_samples:,} samples x {data.n_features:,} features, {data.dtype}, "
        f"{human(data.n_bytes)}"
    )
    if data.stored_bytes is not None:
        told += f" ({human(data.stored_bytes)} as stored)"
    return told


def _blocks(plan: Plan) -> str:
    data = plan.data
    told = (
        f"{data.n_blocks:,} of up to {data.block_features:,} features ({human(data.block_bytes)})"
    )
    if data.chunk is not None:
        told += f"; chunks of {data.chunk[0]:,} features x {data.chunk[1]:,} samples"
    return told


def _rounds(plan: Plan) -> str:
    if plan.work is None:
        most = f", at most {plan.n_steps:,}" if plan.n_steps else ""
        return f"as many steps as it takes{most}: the data decide"
    n = len(plan.work.sizes)
    return f"{n:,} round{'s' if n != 1 else ''}, {plan.work.n_passes:,} passes over features"


def _reading(work: Work) -> str:
    least, most = work.bytes_read
    told = f"{human(least)} of values, as the history of the run counts them"
    return told if most == least else f"{told}, at most {human(most)}"


def _computing(work: Work) -> str:
    if not work.is_timed:
        return "not foreseen"
    parts = []
    for name in ("float32", "float64"):
        least, most = work.both(attrgetter(name))
        if most:
            span = flops(least) if most == least else f"{flops(least)} to {flops(most)}"
            parts.append(f"{span} in {name}")
    return ", ".join(parts) or "next to nothing but reading"


def flops(n: float) -> str:
    """Flops for people.

    >>> flops(2.5e12)
    '2.5 Tflop'
    """
    for unit in ("", "k", "M", "G", "T", "P"):
        if n < 999.5:
            return f"{n:.2g} {unit}flop" if n < 99.5 else f"{n:.0f} {unit}flop"
        n /= 1000
    return f"{n:.2g} Eflop"


def _rates(plan: Plan) -> str:
    rates = plan.rates
    read = "" if math.isinf(rates.decode) else f", {human(rates.decode)}/s read and decoded"
    return (
        f"one thread: {rates.float32 / 1e9:.0f} Gflop/s in float32, {rates.float64 / 1e9:.0f} in "
        f"float64{read}, {rates.values / 1e6:.0f} million values/s"
    )


def _wrapped(label: str, told: str) -> list[str]:
    hanging = "  " if told.startswith("- ") else ""
    return textwrap.wrap(
        told,
        WIDTH,
        initial_indent=f"{label:<{LABELS}}",
        subsequent_indent=" " * LABELS + hanging,
        break_on_hyphens=False,
    )
