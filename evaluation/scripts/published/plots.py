"""Draws plots as SVG: `plots.py FOLDER` with a JSON list of them on standard input. Needs matplotlib.

The same plots give the same bytes: no dates, and identifiers from a fixed salt.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "vesica",
        "font.size": 9,
        "figure.figsize": (6.4, 4.0),
        "axes.grid": True,
        "grid.alpha": 0.3,
        "legend.fontsize": 7,
    }
)


def scatter(axes: Any, plot: dict[str, Any]) -> None:
    for point in plot["points"]:
        marker = {"marker": "o", "color": "C0"} if point["ours"] else {"marker": "x", "color": "C1"}
        axes.scatter([point["x"]], [point["y"]], **marker)
        label = point["label"]
        axes.annotate(
            label, (point["x"], point["y"]), fontsize=6, xytext=(3, 3), textcoords="offset points"
        )
    axes.set(xscale="log", yscale="log", xlabel=plot["x"], ylabel=plot["y"])
    here = axes.scatter([], [], marker="o", color="C0", label="here")
    paper = axes.scatter([], [], marker="x", color="C1", label="the paper")
    axes.legend(handles=[here, paper])


def lines(axes: Any, plot: dict[str, Any]) -> None:
    for name, points in plot["series"].items():
        style = "--" if name in plot.get("dashed", ()) or name.endswith(", paper") else "-"
        axes.plot([x for x, _ in points], [y for _, y in points], style, marker=".", label=name)
    axes.set(xscale="log", yscale="log", xlabel=plot["x"], ylabel=plot["y"])
    axes.legend()


def bars(axes: Any, plot: dict[str, Any]) -> None:
    series, groups = plot["series"], plot["groups"]
    width = 0.8 / max(1, len(series))
    for number, (name, values) in enumerate(series.items()):
        places = [group + number * width for group in range(len(groups))]
        axes.bar(places, values, width, label=name)
    middles = [group + 0.4 - width / 2 for group in range(len(groups))]
    axes.set_xticks(middles, groups, fontsize=7, rotation=12)
    axes.set(yscale="log", ylabel=plot["y"])
    axes.legend()


KINDS = {"scatter": scatter, "lines": lines, "bars": bars}


def main() -> int:
    folder = Path(sys.argv[1])
    for plot in json.load(sys.stdin):
        figure, axes = pyplot.subplots(layout="constrained")
        KINDS[plot["kind"]](axes, plot)
        axes.set_title(plot["title"], fontsize=9)
        figure.savefig(folder / f"{plot['file']}.svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
