#!/usr/bin/env python3
"""Measures Mooring, and the master of Mooncake beside it if there is one, and writes one JSON file.

    ops/benchmarks/measure.py --mooring target/release/mooring \\
        --mooncake VENV/bin/mooncake_master --out results.json
    ops/benchmarks/tables.py results.json

The two masters take turns, and every figure of a round is kept, so that a table can show medians and
how far the rounds lie apart. Each row is one `mooring bench run`; `--rows` picks some of them, and
`--list` names them. Nothing else should run on the machine.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Pinned rows give the master one core and the load the other, as where the two are on machines of
# their own; with one core they share that; the others share all cores.
ROWS = {
    "put-64": "--operation put --batch 64 --connections 2 --in-flight 4",
    "get-128": "--operation get --batch 128 --connections 2 --in-flight 4",
    "get-4096": "--operation get --batch 4096 --connections 2 --in-flight 4",
    "exist-128": "--operation exist --batch 128 --connections 2 --in-flight 4",
    "get-1-pinned": "--operation get --batch 1 --connections 1 --in-flight 1",
    "get-128-pinned": "--operation get --batch 128 --connections 1 --in-flight 1",
    "put-64-one-core": "--operation put --batch 64 --connections 2 --in-flight 4",
    "get-128-one-core": "--operation get --batch 128 --connections 2 --in-flight 4",
    "hot-key": "--operation get --batch 1 --connections 2 --in-flight 16 --distribution hot",
    "zipf-128": "--operation get --batch 128 --connections 2 --in-flight 4 --distribution zipf",
    "churn-64": "--operation churn --batch 64 --connections 2 --in-flight 4",
    # Smaller segments than usual, so that 88 % of them is 1.4 million objects.
    "production": "--preset production --segment-bytes 32GiB",
    "published": "--preset published",
}
# What a master is: its name and its transport. The floor is none: it answers what is asked for without
# doing it, so it shows what the transport takes alone.
MASTERS = {"mooring-quic": "quic", "mooring-tcp": "mooncake", "mooncake": "mooncake", "floor": "quic"}


class Master:
    """A master of its own ports and files, ended without ado."""

    def __init__(self, name, args, core, flags=()):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="mooring-bench-"))
        self.env = dict(os.environ, HOME=str(self.home), XDG_STATE_HOME=str(self.home),
                        XDG_RUNTIME_DIR=str(self.home))
        pin = ["taskset", "-c", core] if core else []
        self.log = open(self.home / "log", "w")
        if name == "mooncake":
            self.port = args.port
            command = pin + [args.mooncake, f"--rpc_port={self.port}",
                             f"--metrics_port={self.port + 1}", "--rpc_address=127.0.0.1"]
            self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=self.env)
            time.sleep(3)
        else:
            ready = self.home / "ready"
            what = ["bench", "floor", "--listen", "127.0.0.1:0"] if name == "floor" else [
                "master", "--dev", "--rpc-port", "0", "--metrics-port", "0", "--rpc-address",
                "127.0.0.1", "--mooncake-port", "0"]
            command = pin + [args.mooring, *what, "--ready-file", str(ready), *flags]
            self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=self.env)
            while not ready.exists():
                if self.process.poll() is not None:
                    sys.exit(f"the master ended: see {self.home / 'log'}")
                time.sleep(0.01)
            told = json.loads(ready.read_text())
            address = told["rpc"][0] if MASTERS[name] == "quic" else told["mooncake"]
            address = address[0] if isinstance(address, list) else address
            self.port = int(address.rsplit(":", 1)[1])

    def end(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)


def pinned(row):
    """What the row says of cores, for people."""
    if row.endswith("-pinned"):
        return "master and load pinned to a core each"
    return "master and load pinned to one core" if row.endswith("-one-core") else ""


def run_row(args, row, name):
    """One round of one row on one master: the JSON of the load generator, or why there is none."""
    core = "1" if row.endswith("-pinned") else "0" if row.endswith("-one-core") else None
    master = Master(name, args, core)
    try:
        command = ["taskset", "-c", "0"] if core else []
        command += [args.mooring, "bench", "run", "--master", f"127.0.0.1:{master.port}",
                    "--transport", MASTERS[name], "--master-pid", str(master.process.pid), "--json",
                    *ROWS[row].split()]
        if MASTERS[name] == "quic":
            command.append("--dev")
        if "--preset" not in ROWS[row]:
            command += ["--keys", str(args.keys), "--duration", f"{args.seconds}s"]
        done = subprocess.run(command, capture_output=True, text=True, env=master.env, check=False)
        if done.returncode != 0 and not done.stdout.strip():
            return {"failed": done.stderr.strip()[-500:]}
        return json.loads(done.stdout.strip().splitlines()[-1])
    finally:
        master.end()


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), platform.processor())
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo"))
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_bytes": memory * 1024,
            "kernel": platform.release(), "date": time.strftime("%Y-%m-%d")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mooring", default="target/release/mooring", help="the binary")
    parser.add_argument("--mooncake", help="the binary of Mooncake's master, to measure beside it")
    parser.add_argument("--port", type=int, default=45910,
                        help="for the master of Mooncake, which takes this port and the next")
    parser.add_argument("--rounds", type=int, default=5, help="how often each row is measured")
    parser.add_argument("--seconds", type=int, default=5, help="how long each round takes")
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys that are there")
    parser.add_argument("--masters", help="names with commas between them; all if left out")
    parser.add_argument("--rows", help="names with commas between them; all if left out")
    parser.add_argument("--out", default="results.json", help="the file to write")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    args = parser.parse_args()
    if args.list:
        for row, flags in ROWS.items():
            print(f"{row:16} {flags}")
        return
    rows = args.rows.split(",") if args.rows else list(ROWS)
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        parser.error(f"--rows: there is no {unknown[0]}; --list names them")
    masters = args.masters.split(",") if args.masters else [
        name for name in MASTERS if name != "mooncake" or args.mooncake]
    unknown = [name for name in masters if name not in MASTERS]
    if unknown:
        parser.error(f"--masters: there is no {unknown[0]}, but {', '.join(MASTERS)}")
    results = {"machine": machine(), "keys": args.keys, "seconds": args.seconds, "rows": {}}
    for row in rows:
        found = results["rows"][row] = {"flags": ROWS[row], "pinned": pinned(row),
                                        "masters": {name: [] for name in masters}}
        for number in range(args.rounds):
            for name in masters:
                figures = run_row(args, row, name)
                found["masters"][name].append(figures)
                master = figures.get("master", {})
                print(f"{row} {number + 1}/{args.rounds} {name}: "
                      f"{figures.get('keys_per_s', 0):,.0f} keys/s, "
                      f"{master.get('cpu_us_per_key')} us/key "
                      f"{figures.get('failed', '')}", file=sys.stderr, flush=True)
                # After each round, so that an interrupted run is not lost.
                pathlib.Path(args.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
