#!/usr/bin/env python3
"""Prints the tables of a file that measure.py has written, as Markdown."""

import json
import statistics
import sys


def value(figures, path):
    for name in path.split("."):
        figures = figures.get(name) if isinstance(figures, dict) else None
    return figures


def middle(rounds, path):
    found = [value(figures, path) for figures in rounds]
    found = [figure for figure in found if figure is not None]
    return statistics.median(found) if found else None


def cell(figure, digits=2):
    if figure is None:
        return "–"
    whole = figure >= 1000 or float(figure).is_integer()
    return f"{figure:,.0f}" if whole else f"{figure:.{digits}f}"


COLUMNS = [
    ("CPU, µs/key", "master.cpu_us_per_key"),
    ("keys/s", "keys_per_s"),
    ("p50, µs", "latency_us.p50"),
    ("p99, µs", "latency_us.p99"),
    ("p99.9, µs", "latency_us.p999"),
    ("refused", "refused"),
    ("errors", "errors"),
]


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} RESULTS.json")
    with open(sys.argv[1]) as file:
        results = json.load(file)
    machine = results["machine"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] >> 30} GiB, "
          f"Linux {machine['kernel']}, {machine['date']}; {results['keys']:,} keys, "
          f"{results['seconds']} s a round; medians.\n")
    for row, found in results["rows"].items():
        print(f"### {row}\n\n`mooring bench run {found['flags']}`"
              f"{', ' + found['pinned'] if found['pinned'] else ''}\n")
        print("| master | rounds | " + " | ".join(name for name, _ in COLUMNS) + " |")
        print("| --- |" + " ---: |" * (len(COLUMNS) + 1))
        for name, rounds in found["masters"].items():
            cells = [cell(middle(rounds, path)) for _, path in COLUMNS]
            print(f"| {name} | {len(rounds)} | " + " | ".join(cells) + " |")
        print()


if __name__ == "__main__":
    main()
