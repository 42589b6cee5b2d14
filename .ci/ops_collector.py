"""Sends traces and figures of a master to a collector of OpenTelemetry that is not ours, over both forms
of OTLP, and reads in its log that they were taken. Arguments: the master's binary, the collector's."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 30


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def wait_for(what, made):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found = made()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} does not come")


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def check(mooring, collector, form, scratch):
    ports = {"http": free_port(), "grpc": free_port()}
    log = scratch / f"{form}.log"
    with log.open("w") as out:
        takes = subprocess.Popen(
            [collector, "start", "--exporter", "blackhole"]
            + [f"--otlp-{name}-endpoint=127.0.0.1:{port}" for name, port in ports.items()]
            + ["--debug-log", "traces", "--debug-log", "metrics", "--debug-log-verbosity", "basic"],
            stdout=out,
            stderr=out,
        )
    ready = scratch / f"{form}.ready"
    master = None
    try:
        wait_for("the collector", lambda: answers(ports[form]))
        sends = [f"--otlp-endpoint=http://127.0.0.1:{ports[form]}", f"--otlp-protocol={form}"]
        flags = ["--dev", "--rpc-port=0", "--metrics-port=0", "--otlp-metrics-interval=200ms"]
        command = [mooring, "master", f"--ready-file={ready}", *flags, *sends]
        with (scratch / f"{form}.master").open("w") as out:
            master = subprocess.Popen(command, stdout=out, stderr=out)
        wait_for("the master", ready.exists)
        found = json.loads(ready.read_text())
        port = found["rpc"][0].rsplit(":", 1)[1]
        trust = [f"--master=127.0.0.1:{port}", "--dev", f"--pin-sha256={found['cert_sha256']}"]
        asks = [mooring, "exists", "a", "b", "--trace-ratio=1", *trust, *sends]
        # That keys are missing ends it with 1.
        assert subprocess.run(asks, stdout=subprocess.DEVNULL).returncode == 1
        wait_for("the figures", lambda: most(log, "metrics") > 100)
        # The request with its parts, and the start.
        wait_for("the spans", lambda: most(log, "spans") >= 5)
        print(f"over {form}: {most(log, 'spans')} spans, {most(log, 'metrics')} figures at once")
    finally:
        for process in [master, takes]:
            if process:
                process.terminate()
                process.wait()


def most(log, kind):
    """The most of a kind that came in one message."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text())
    return max(map(int, re.findall(rf"\b{kind}=(\d+)", plain)), default=0)


def main():
    mooring, collector = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        for form in ["http", "grpc"]:
            check(mooring, collector, form, pathlib.Path(scratch))


main()
