#!/usr/bin/env python3
"""Measures how a master leaves and comes back, and writes one JSON file.

    ops/benchmarks/restart.py --mooring target/release/mooring --keys 1000000,12000000 \\
        --directory /dev/shm --out restart.json

For each number of keys and each round: a master is filled, gets SIGTERM and leaves a snapshot, and the
next one with the same flags restores it. With `--without-handoff` a filled master without a directory
gets SIGTERM in one round and SIGKILL in the next instead, which shows what an exit costs by itself.

Before each round memory is touched and freed (`--warm-bytes`): a hypervisor may have taken the free
memory of its guest back, and each first touch of a page is then many times as slow. Nothing else should
run on the machine.
"""

import argparse
import json
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import time

from measure import machine
from running import GIB, Master, status_bytes, stop, warm


def restart(args, keys, _turn):
    """One planned restart."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="mooring-handoff-", dir=args.directory))
    master = Master(args, directory)
    filler = None
    try:
        filler = master.fill(keys)
        held = master.figure("mooring_shard_objects")
        resident = status_bytes(master.process.pid, "VmRSS")
        figures = {"exit_s": master.end(signal.SIGTERM)}
        snapshot = sum(path.stat().st_size for path in (directory / "READY").rglob("*"))
        figures["serving_s"] = master.start()
        served = time.monotonic()
        peak = status_bytes(master.process.pid, "VmHWM")
        while master.figure("master_handoff_segments_pending") > 0:
            time.sleep(0.01)
        figures.update(
            all_open_s=time.monotonic() - served,
            restart_s=figures["exit_s"] + figures["serving_s"],
            objects=held, objects_after=master.figure("mooring_shard_objects"),
            resident_bytes_per_object=resident / keys, snapshot_bytes_per_object=snapshot / keys,
            peak_bytes_per_object=peak / keys)
        return figures
    finally:
        stop(filler)
        master.clean_up()
        shutil.rmtree(directory, ignore_errors=True)


def leave(args, keys, turn):
    """The end of a filled master without a directory, by each of the two signals in turn."""
    figures = {}
    signals = [("sigterm_s", signal.SIGTERM), ("sigkill_s", signal.SIGKILL)]
    for name, number in signals if turn % 2 == 0 else reversed(signals):
        master = Master(args, None)
        filler = None
        try:
            filler = master.fill(keys)
            # Those that filled it have just closed, which an exit would wait up to 100 ms for.
            time.sleep(2)
            figures[name] = master.end(number)
        finally:
            stop(filler)
            master.clean_up()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mooring", default="target/release/mooring", help="the binary")
    parser.add_argument("--keys", default="1000000,5000000,12000000,25000000",
                        help="numbers of objects, with commas between them")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--directory", default="/dev/shm", help="where the snapshots are written")
    parser.add_argument("--without-handoff", action="store_true",
                        help="SIGTERM beside SIGKILL, without a snapshot")
    parser.add_argument("--flags", default="", help="more flags of the master, in one argument")
    parser.add_argument("--warm-bytes", type=int, default=6 * GIB,
                        help="memory to touch before each round; 0 for none")
    parser.add_argument("--out", default="restart.json", help="the file to write")
    args = parser.parse_args()
    measured = leave if args.without_handoff else restart
    results = {"machine": machine(), "directory": None if args.without_handoff else args.directory,
               "rounds": {}}
    for keys in map(int, args.keys.split(",")):
        rounds = results["rounds"][keys] = []
        for number in range(args.rounds):
            warm(args.warm_bytes)
            rounds.append(measured(args, keys, number))
            shown = "  ".join(f"{name} {value:.4g}" for name, value in rounds[-1].items())
            print(f"{keys:,} {number + 1}/{args.rounds}: {shown}", file=sys.stderr, flush=True)
            # After each round, so that an interrupted run is not lost.
            pathlib.Path(args.out).write_text(json.dumps(results, indent=1) + "\n")
        names = {name: None for found in rounds for name in found}
        middle = {name: statistics.median(found[name] for found in rounds) for name in names}
        print(f"{keys:,} medians: " + "  ".join(f"{name} {value:.4g}" for name, value in middle.items()),
              flush=True)


if __name__ == "__main__":
    main()
