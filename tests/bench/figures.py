"""Figures, and the ways in which they are told: lines on the terminal, tables of docs/performance.md."""

import math
import textwrap
from dataclasses import dataclass, field
from statistics import median, quantiles

COLUMNS = 130  # of prose in docs/


def spread(values: list) -> list:
    """p50, p90, p99 and the largest."""
    cuts = quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    return [cuts[49], cuts[89], cuts[98], max(values)]


def with_range(values: list, digits: int = 3) -> str:
    """The median, and from where to where the values went."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def exponent(sizes: list, values: list) -> float:
    """The b of values ~ a * sizes ** b, by least squares of the logarithms; NaN without two sizes."""
    points = [(math.log(s), math.log(v)) for s, v in zip(sizes, values) if s > 0 and v > 0]
    if len({x for x, _ in points}) < 2:
        return math.nan
    mean_x, mean_y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return (sum((x - mean_x) * (y - mean_y) for x, y in points)
            / sum((x - mean_x) ** 2 for x, _ in points))


def growth(sizes: list, values: list) -> str:
    """As a power of the size. What is fixed counts for much in small sizes: the last step is told beside the whole."""
    whole = exponent(sizes, values)
    if math.isnan(whole):
        return "not known"
    last = exponent(sizes[-2:], values[-2:])
    return f"n^{whole:.2f} over all sizes, n^{last:.2f} between the last two"


@dataclass
class Table:
    head: list
    rows: list
    title: str = ""

    def text(self) -> str:
        cells = [[str(c) for c in row] for row in [self.head, *self.rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.head))]
        lines = [f"{self.title}:"] if self.title else []
        for row in cells:
            first, *rest = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
            lines.append("  " + "  ".join([first, *rest]))
        return "\n".join(lines)

    def markdown(self) -> str:
        def line(row):
            return "| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |"
        head = [line(self.head), line(["---"] * len(self.head))]
        return "\n".join([*([self.title + ":", ""] if self.title else []), *head, *map(line, self.rows)])


@dataclass
class Block:
    """What one measurement found: sentences on how, tables, sentences on what came out, and the raw figures."""
    how: str
    tables: list
    results: list = field(default_factory=list)
    figures: dict = field(default_factory=dict)

    def text(self) -> str:
        return "\n".join(["", self.how, *[t.text() for t in self.tables], *self.results])

    def markdown(self) -> str:
        results = [textwrap.fill(r, COLUMNS, initial_indent="- ", subsequent_indent="  ") for r in self.results]
        return "\n\n".join([textwrap.fill(self.how, COLUMNS), *[t.markdown() for t in self.tables],
                            *(["\n".join(results)] if results else [])])

    def to_json(self) -> dict:
        return {"how": self.how, "results": self.results, "figures": self.figures,
                "tables": [{"title": t.title, "head": t.head, "rows": t.rows} for t in self.tables]}

    @staticmethod
    def from_json(kept: dict) -> "Block":
        return Block(kept["how"], [Table(t["head"], t["rows"], t["title"]) for t in kept["tables"]],
                     kept["results"], kept["figures"])
