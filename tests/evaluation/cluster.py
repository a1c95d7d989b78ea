"""A Dask cluster on this machine for the tests, as a process of its own.

Prints the scheduler's address; on a line "kill" kills one worker, at the end of its input it stops.
"""

import os
import signal
import sys

WORKERS = 3


def main() -> None:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None,
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        print(cluster.scheduler_address, flush=True)
        for line in sys.stdin:
            if line.strip() == "kill":
                victim = sorted(client.run(os.getpid).values())[0]
                os.kill(victim, signal.SIGKILL)
                print(victim, flush=True)


if __name__ == "__main__":
    main()
