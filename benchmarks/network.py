"""What a fit on a cluster sends over the network: a count on paper, and the count of the workers.

A pass sends its scores to every worker and brings one table of sums for each block, added up in
groups of eight. The bound is that every table but the one that stays where its group is added
travels once. Run here with many small blocks, so that the counts are large.
"""

import argparse
import tempfile
from pathlib import Path

from bitmix import TwoRoundEM
from bitmix.datasets import make_templates, sample_mixture
from bitmix.rows.cluster import _FAN_IN, ClusterRows

WIDTH = 8  # bytes of a sum


def tables(blocks: int) -> int:
    """Tables of sums that are made: one per block, one per group, one per group of groups …"""
    total = level = blocks
    while level > 1:
        level = -(-level // _FAN_IN)
        total += level
    return total


def bound(blocks: int, k: int, n: int, workers: int) -> int:
    """Bytes of one pass: scores out to all workers, all tables in."""
    return WIDTH * k * n * (workers + tables(blocks))


def moved(dask_worker) -> int:
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    from distributed import Client, LocalCluster

    n, l, k = args.columns, args.seeds, 5
    truth = make_templates(k, n, separation=0.3, random_state=0)
    X, _ = sample_mixture(truth, [1 / k] * k, 0.1, args.rows, random_state=0)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(args.workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        path = Path(folder) / "rows.bits"
        X.save(path)
        rows = ClusterRows.of_file(path, block_bytes=-(-X.nbytes // args.blocks))
        rows.take(range(l))
        before = sum(client.run(moved).values())
        TwoRoundEM(k, n_seeds=l, random_state=0).fit(rows)
        between = sum(client.run(moved).values()) - before
    blocks = len(rows._blocks)
    most = bound(blocks, l, n, args.workers) + bound(blocks, k, n, args.workers)
    print(f"{args.rows:,} rows × {n:,} bits, {blocks} blocks, {args.workers} workers, l = {l}")
    print(f"bound {most / 1e6:,.1f} MB, counted {between / 1e6:,.1f} MB between workers")
    print(f"{between / most:.2f} of the bound")


if __name__ == "__main__":
    main()
