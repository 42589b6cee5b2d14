#!/usr/bin/env python3
"""Measures what readers feel while something else happens, and how memory lasts; writes one JSON file.

    ops/benchmarks/steady.py --mooring target/release/mooring --out steady.json

Gets come at a fixed rate, so that latency counts from when a get was due. Each scene has a master of its
own with a million objects that are read: alone, while puts evict others, while a store with millions of
objects leaves, while segments are mounted and unmounted, and while everything is removed. Then puts come
without a pause into a pool that is full; at last two million objects are replaced over and over, and half
of them is taken away.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from measure import machine
from running import Master, figures_of, status_bytes, stop

READ_KEYS = 1_000_000
# The objects that are read fill four fifths of these segments, so that within seconds each new object takes
# the place of one that nobody reads. Most of what is read stays: it is asked for again within its lease.
READ_SEGMENTS = ["--segments", 4, "--segment-bytes", "76GiB"]
EVICTING = ["--segments", 1, "--segment-bytes", "8GiB", "--rate", 20_000, "--batch", 64]


def evict(master, args):
    """Puts into segments that are full; gives the process."""
    putting = master.bench("--operation", "put", "--keys", 1, "--seed", 2, "--duration",
                           f"{args.seconds + 22}s", "--warm-up", 0, *EVICTING)
    while master.figure("master_evicted_key_count") == 0:
        if putting.poll() is not None:
            sys.exit(f"nothing was evicted: {putting.communicate()}")
        time.sleep(0.1)
    return [putting]


def lose_store(master, args):
    """A store with many objects leaves within the measurement."""
    filler = master.fill(args.lost_keys, "--seed", 3)
    threading.Timer(4, filler.terminate).start()
    return [filler]


def mount_storm(master, args):
    """Mounts and unmounts hundreds of segments, over and over."""
    script = (f'for round in $(seq {args.seconds + 4}); do "{args.mooring}" bench fill --dev --master '
              f'127.0.0.1:{master.ports[0]} --keys 1 --segments 512 --segment-bytes 64MiB; done')
    return [subprocess.Popen(["sh", "-c", script], env=master.env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)]


def remove_all(master, args):
    """Removes millions of objects in one request, within the measurement."""
    filler = master.fill(args.lost_keys, "--seed", 3)

    def remove():
        url = f"http://127.0.0.1:{master.ports[1]}/api/v1/remove_all?force=true"
        urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60).read()

    threading.Timer(4, remove).start()
    return [filler]


SCENES = {"alone": lambda master, args: [], "eviction": evict, "a store leaves": lose_store,
          "mount storm": mount_storm, "remove all": remove_all}


def scene(args, happens):
    """Latencies of gets while something happens."""
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        master = Master(args, directory if args.with_handoff else None)
        reader, others = None, []
        try:
            filler = master.fill(READ_KEYS, *READ_SEGMENTS)
            others = happens(master, args)
            reader = master.bench("--operation", "get", "--no-fill", "--keys", READ_KEYS, "--batch", 128,
                                  "--connections", 2, "--in-flight", 16, "--rate", args.rate,
                                  "--duration", f"{args.seconds}s")
            found = figures_of(reader)
            return {"latency_us": found["latency_us"], "keys_per_s": found["keys_per_s"],
                    "errors": found["errors"], "missing": found["missing"],
                    "refused_puts": master.figure("master_put_start_alloc_failures_total"),
                    "evicted": master.figure("master_evicted_key_count")}
        finally:
            stop(reader, *others, filler)
            master.clean_up()


def full_pool(args):
    """Puts without a pause into a pool that has been full for most of the time."""
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        master = Master(args, directory if args.with_handoff else None)
        try:
            found = figures_of(master.bench("--operation", "put", "--keys", 1, "--batch", 64, "--connections", 2,
                                            "--segments", 4, "--segment-bytes", "64GiB",
                                            "--duration", f"{args.seconds}s"))
            return {"keys_per_s": found["keys_per_s"], "refused": found["refused"],
                    "errors": found["errors"], "latency_us": found["latency_us"],
                    "evicted": master.figure("master_evicted_key_count")}
        finally:
            master.clean_up()


def memory(args):
    """Resident memory over rounds in which half of two million objects is replaced, and after half went."""
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        master = Master(args, directory if args.with_handoff else None)
        first = second = None
        try:
            churn = master.bench("--operation", "churn", "--keys", 2_000_000, "--batch", 64,
                                 "--connections", 2, "--duration", f"{args.churn_seconds}s")
            rounds, replaced_per_round = [], 1_000_000
            while churn.poll() is None:
                replaced = master.figure("mooring_removed_objects_total")
                if replaced >= replaced_per_round * len(rounds) and replaced:
                    rounds.append(status_bytes(master.process.pid, "VmRSS"))
                time.sleep(0.05)
            figures_of(churn)
            first = master.fill(1_000_000, "--seed", 5)
            second = master.fill(1_000_000, "--seed", 6)
            full = status_bytes(master.process.pid, "VmRSS")
            second.terminate()
            second.wait()
            given_back = []
            for _ in range(60):
                time.sleep(1)
                given_back.append(status_bytes(master.process.pid, "VmRSS"))
            return {"rounds": len(rounds), "resident_bytes_by_round": rounds,
                    "growth_percent": 100 * (rounds[min(10, len(rounds) - 1)] / rounds[0] - 1),
                    "full_bytes": full, "bytes_a_minute_after_half_went": given_back[-1]}
        finally:
            stop(first, second)
            master.clean_up()


OTHERS = {"a full pool": full_pool, "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mooring", default="target/release/mooring", help="the binary")
    parser.add_argument("--rate", type=int, default=200_000, help="gets a second, in batches of 128")
    parser.add_argument("--seconds", type=int, default=10, help="how long each scene is measured")
    parser.add_argument("--churn-seconds", type=int, default=40, help="how long objects are replaced")
    parser.add_argument("--lost-keys", type=int, default=5_000_000,
                        help="objects of the store that leaves, or that are removed")
    parser.add_argument("--rounds", type=int, default=3, help="how often each scene is measured")
    parser.add_argument("--scenes", help="names with commas between them; all if left out")
    parser.add_argument("--with-handoff", action="store_true", help="with a handoff directory")
    parser.add_argument("--directory", default="/dev/shm", help="where it is")
    parser.add_argument("--flags", default="", help="more flags of the master, in one argument")
    parser.add_argument("--out", default="steady.json", help="the file to write")
    args = parser.parse_args()
    chosen = args.scenes.split(",") if args.scenes else [*SCENES, *OTHERS]
    results = {"machine": machine(), "with_handoff": args.with_handoff, "rate": args.rate, "scenes": {}}
    for name in chosen:
        found = results["scenes"][name] = []
        for number in range(1 if name == "memory" else args.rounds):
            found.append(OTHERS[name](args) if name in OTHERS else scene(args, SCENES[name]))
            print(f"{name} {number + 1}: {json.dumps(found[-1])[:300]}", file=sys.stderr, flush=True)
            pathlib.Path(args.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
