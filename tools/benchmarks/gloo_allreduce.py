"""All-reduce of torch.distributed over gloo between processes of this host.

Prints a line of JSON for each size: members, bytes, microseconds (the median of the first process). Every
process waits at a barrier before each operation, as in `tandem bench collectives`.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def member(rank, members, port, sizes):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=members)
    for size in sizes:
        values = torch.ones(size // 4)
        for _ in range(5):
            dist.all_reduce(values)
            values.fill_(1)
        seconds = []
        for _ in range(200 if size < 4 << 20 else 20):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(values)
            seconds.append(time.perf_counter() - begin)
        if rank == 0:
            line = {"members": members, "bytes": size, "microseconds": statistics.median(seconds) * 1e6}
            print(json.dumps(line), flush=True)
    # A member that leaves while another still waits for it ends with SIGABRT inside gloo.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", default="2,4")
    parser.add_argument("--sizes", default="1024,16384,262144,4194304,16777216,67108864")
    arguments = parser.parse_args()
    for count in map(int, arguments.members.split(",")):
        mp.spawn(member, (count, 29511 + count, list(map(int, arguments.sizes.split(",")))), nprocs=count)
