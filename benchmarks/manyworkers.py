"""Many workers of one thread in one process, for tasks that sleep: `manyworkers.py ADDRESS N`."""

import asyncio
import signal
import sys
import warnings

import dask
from distributed import Worker

#: Each worker would look at the machine twice a second, and tell of itself more often than needed.
QUIET = {"distributed.admin.system-monitor.interval": "600s"}


async def work(address, n):
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    workers = [
        Worker(address, nthreads=1, memory_limit=0, dashboard=False, host="127.0.0.1", name=str(i))
        for i in range(n)
    ]
    for i in range(0, n, 20):
        await asyncio.gather(*workers[i : i + 20])
    await stop.wait()
    await asyncio.gather(*(worker.close(timeout=2, nanny=False) for worker in workers))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    dask.config.set(QUIET)
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
