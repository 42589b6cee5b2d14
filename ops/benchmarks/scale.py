#!/usr/bin/env python3
"""Measures how time and memory grow with the number of objects, writes JSON, and draws it.

    ops/benchmarks/scale.py --mooring target/release/mooring --keys 1000000,12000000,100000000
    ops/benchmarks/scale.py --draw scale.json

For each number of objects a master is filled, given new ones beside, asked for the first at random, and told
to leave without a handoff. 100 million objects with 96-byte keys take 19 GB. The drawings are SVG files
beside the JSON.
"""

import argparse
import json
import pathlib
import signal
import sys
import time

from measure import machine
from running import Master, figures_of, status_bytes, stop

# What is drawn: the file, what it shows, and the figure.
DRAWINGS = [
    ("scale-memory.svg", "resident bytes for each object", "resident_bytes_per_object"),
    ("scale-get.svg", "processor time of a get, us for each key, batches of 128", "get_cpu_us_per_key"),
    ("scale-put.svg", "processor time of a put, us for each key, batches of 64", "put_cpu_us_per_key"),
    ("scale-fill.svg", "millions of puts a second while it is filled", "fill_mkeys_per_s"),
    ("scale-exit.svg", "seconds from SIGTERM to the end, without a handoff", "exit_s"),
]

# Objects of 256 KiB that one segment of the usual 675 GiB has room for.
SEGMENT_KEYS = 675 * 4096
# More than are put while puts are measured, so that none takes the place of another.
NEW_KEYS_MAX = 30_000_000


def measure(args, keys):
    """One number of objects."""
    master = Master(args, None)
    filler = None
    try:
        began = time.monotonic()
        filler = master.fill(keys, "--segments", -(-(keys + NEW_KEYS_MAX) // SEGMENT_KEYS))
        filled_s = time.monotonic() - began
        resident = status_bytes(master.process.pid, "VmRSS")
        seconds = f"{args.seconds}s"
        # The leases of gets end while the next load runs, and that is work too.
        puts = figures_of(master.bench(
            "--operation", "put", "--segments", 1, "--segment-bytes", "2MiB", "--keys", keys, "--seed", 1,
            "--batch", 64, "--connections", 2, "--duration", seconds))
        gets = figures_of(master.bench(
            "--operation", "get", "--no-fill", "--keys", keys, "--batch", 128, "--connections", 2,
            "--duration", seconds))
        return {
            "fill_mkeys_per_s": keys / filled_s / 1e6,
            "resident_bytes_per_object": resident / keys,
            "get_cpu_us_per_key": gets["master"]["cpu_us_per_key"],
            "get_keys_per_s": gets["keys_per_s"],
            "get_p99_us": gets["latency_us"]["p99"],
            "put_cpu_us_per_key": puts["master"]["cpu_us_per_key"],
            "put_keys_per_s": puts["keys_per_s"],
            "exit_s": master.end(signal.SIGTERM),
        }
    finally:
        stop(filler)
        master.clean_up()


def draw(title, points):
    """A curve over the millions of objects, as SVG. `points` are pairs."""
    width, height, margin = 560, 300, 46
    right, top = max(x for x, _ in points), max(y for _, y in points) * 1.1 or 1

    def place(x, y):
        across = margin + (width - 2 * margin) * x / right
        return f"{across:.1f},{height - margin - (height - 2 * margin) * y / top:.1f}"

    floor, left = height - margin, margin
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="24" font-size="14">{title}</text>',
        f'<path d="M{left},40V{floor}H{width - margin}" fill="none" stroke="black"/>',
        f'<polyline points="{" ".join(place(x, y) for x, y in points)}" fill="none" '
        'stroke="#1f77b4" stroke-width="2"/>',
    ]
    for x, y in points:
        across, up = place(x, y).split(",")
        parts += [
            f'<circle cx="{across}" cy="{up}" r="3" fill="#1f77b4"/>',
            f'<text x="{across}" y="{float(up) - 8}" text-anchor="middle">{y:.3g}</text>',
            f'<text x="{across}" y="{floor + 16}" text-anchor="middle">{x:g}</text>',
        ]
    parts.append(f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">'
                 'million objects</text></svg>')
    return "\n".join(parts) + "\n"


def draw_all(results, directory):
    found = sorted((int(keys) / 1e6, figures) for keys, figures in results["objects"].items())
    for file, title, name in DRAWINGS:
        points = [(millions, figures[name]) for millions, figures in found]
        (directory / file).write_text(draw(title, points))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mooring", default="target/release/mooring", help="the binary")
    parser.add_argument("--keys", default="1000000,5000000,12000000,25000000,50000000,100000000",
                        help="numbers of objects, with commas between them")
    parser.add_argument("--seconds", type=int, default=4, help="how long gets and puts are measured")
    parser.add_argument("--flags", default="", help="more flags of the master, in one argument")
    parser.add_argument("--out", default="scale.json", help="the file to write")
    parser.add_argument("--draw", metavar="FILE", help="only draw what such a file says")
    args = parser.parse_args()
    out = pathlib.Path(args.draw or args.out)
    if args.draw:
        draw_all(json.loads(out.read_text()), out.parent)
        return
    results = {"machine": machine(), "objects": {}}
    for keys in map(int, args.keys.split(",")):
        figures = results["objects"][keys] = measure(args, keys)
        shown = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
        print(f"{keys:,}: {shown}", file=sys.stderr, flush=True)
        out.write_text(json.dumps(results, indent=1) + "\n")
    draw_all(results, out.parent)


if __name__ == "__main__":
    main()
