"""A master and what loads it, as processes of their own; what the scripts beside this one share."""

import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

GIB = 1 << 30


def warm(size_bytes):
    """Touches memory and gives it back."""
    if size_bytes:
        block = mmap.mmap(-1, size_bytes)
        for at in range(0, size_bytes, mmap.PAGESIZE):
            block[at] = 1
        block.close()


def status_bytes(pid, name):
    """A figure of /proc/PID/status, in bytes."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M).group(1)) * 1024


class Master:
    """A master with ports that stay the same over its restarts."""

    def __init__(self, args, directory):
        self.mooring = args.mooring
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="mooring-restart-"))
        self.ready = self.home / "ready"
        self.env = dict(os.environ, HOME=str(self.home), XDG_STATE_HOME=str(self.home),
                        XDG_RUNTIME_DIR=str(self.home))
        self.handoff = ["--handoff-dir", str(directory)] if directory else []
        self.flags = args.flags.split()
        self.ports = ["0", "0"]
        self.start()
        told = json.loads(self.ready.read_text())
        self.ports = [told["rpc"][0].rsplit(":", 1)[1], told["metrics"].rsplit(":", 1)[1]]

    def start(self):
        """Starts a process and waits until it serves; gives the seconds that this took."""
        began = time.monotonic()
        with open(self.home / "log", "a") as log:
            self.process = subprocess.Popen(
                [self.mooring, "master", "--dev", "--rpc-address", "127.0.0.1", "--rpc-port",
                 self.ports[0], "--metrics-port", self.ports[1], "--ready-file", str(self.ready),
                 "--client-ttl", "60", *self.handoff, *self.flags],
                stdout=log, stderr=log, env=self.env)
        while not self.ready.exists():
            if self.process.poll() is not None:
                sys.exit(f"the master ended: see {self.home / 'log'}")
            time.sleep(0.001)
        return time.monotonic() - began

    def end(self, number):
        """Sends a signal; gives the seconds until the process has ended."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait()
        return time.monotonic() - began

    def fill(self, keys, *flags):
        """Puts the objects, with a process that holds the segments afterwards."""
        filler = subprocess.Popen(
            [self.mooring, "bench", "fill", "--dev", "--master", f"127.0.0.1:{self.ports[0]}", "--keys",
             str(keys), "--hold", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
        for line in filler.stderr:
            if "holding the segments" in line:
                return filler
        sys.exit(f"the fill failed with {filler.wait()}: {filler.stdout.read()}")

    def figure(self, name):
        """A metric, summed over its labels."""
        url = f"http://127.0.0.1:{self.ports[1]}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        return sum(map(float, re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)", text, re.M)))

    def clean_up(self):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)
        shutil.rmtree(self.home, ignore_errors=True)

    def bench(self, *flags):
        """Starts `mooring bench run` on this master; its standard output is JSON."""
        return subprocess.Popen(
            [self.mooring, "bench", "run", "--dev", "--master", f"127.0.0.1:{self.ports[0]}",
             "--master-pid", str(self.process.pid), "--json", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)


def figures_of(bench):
    """What a process of Master.bench has found."""
    out, error = bench.communicate()
    if not out.strip():
        sys.exit(f"the load failed: {error.strip()[-500:]}")
    return json.loads(out.strip().splitlines()[-1])


def stop(*processes):
    """Ends processes that are left, without ado."""
    for process in processes:
        if process and process.poll() is None:
            process.kill()
            process.wait()
