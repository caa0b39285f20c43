"""docs/images/performance.svg, drawn from the kept figures: four panels, each with its goal where it has one."""

import math
from html import escape
from statistics import median

WIDTH, HEIGHT, GAP = 430, 270, 30
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 46  # of a panel
COLOURS = ("#1f5fa8", "#c2571a", "#8a8a8a", "#3d8b53")


class Axis:
    """From values to positions, by logarithms or evenly."""

    def __init__(self, values: list, low: float, high: float, log: bool):
        self.log, self.low, self.high = log, low, high
        least, most = min(values), max(values)
        if log:
            self.first, self.last = 10 ** math.floor(math.log10(least)), 10 ** math.ceil(math.log10(most))
            if self.first == self.last:
                self.last *= 10
        else:
            self.first, self.last = 0, most * 1.5 or 1  # with room for the legend

    def at(self, value: float) -> float:
        share = (math.log(value / self.first) / math.log(self.last / self.first) if self.log
                 else (value - self.first) / (self.last - self.first))
        return self.low + share * (self.high - self.low)

    def ticks(self) -> list:
        if self.log:
            count = round(math.log10(self.last / self.first))
            return [self.first * 10 ** i for i in range(count + 1)]
        step = 10 ** math.floor(math.log10(self.last / 2))
        step *= next(m for m in (1, 2, 5, 10) if self.last / (step * m) <= 6)
        return [i * step for i in range(int(self.last / step) + 1)]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 11, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>{escape(words)}</text>'


class Panel:
    """Lines over one horizontal axis."""

    def __init__(self, title: str, across: str, up: str, lines: dict, log_x: bool = True, log_y: bool = True, goal: tuple = ()):
        self.title, self.across, self.up, self.lines = title, across, up, lines
        self.log_x, self.log_y, self.goal = log_x, log_y, goal

    def svg(self) -> str:
        points = [p for line in self.lines.values() for p in line]
        heights = [y for _, y in points] + ([self.goal[1]] if self.goal else [])
        x = Axis([p[0] for p in points], LEFT, WIDTH - RIGHT, self.log_x)
        y = Axis(heights, HEIGHT - BOTTOM, TOP, self.log_y)
        parts = [text(LEFT, 18, self.title, size=13, more=' font-weight="600"'), *self._frame(x, y)]
        if self.goal:
            at = y.at(self.goal[1])
            parts += [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#b00020" '
                      'stroke-dasharray="5 4"/>',
                      text(WIDTH - RIGHT, at - 4, self.goal[0], "end", 10, ' fill="#b00020"')]
        for index, (name, line) in enumerate(self.lines.items()):
            parts += self._line(name, line, x, y, index)
        return "\n".join(parts)

    def _frame(self, x: Axis, y: Axis) -> list:
        parts = []
        for tick in y.ticks():
            at = y.at(tick)
            parts += [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>',
                      text(LEFT - 6, at + 4, number(tick), "end", 10)]
        for tick in x.ticks():
            at = x.at(tick)
            parts += [f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}" stroke="#555555"/>',
                      text(at, HEIGHT - BOTTOM + 17, number(tick), "middle", 10)]
        middle = (TOP + HEIGHT - BOTTOM) / 2
        return [*parts, text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, self.across, "middle"),
                text(14, middle, self.up, "middle", more=f' transform="rotate(-90 14 {middle:.0f})"')]

    def _line(self, name: str, line: list, x: Axis, y: Axis, index: int) -> list:
        colour = COLOURS[index % len(COLOURS)]
        at = [(x.at(a), y.at(b)) for a, b in line]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
        dots = [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in at]
        # where growing lines leave room: below them, or above all of them
        above = HEIGHT - BOTTOM - 8 - 14 * (len(self.lines) - 1 - index) if self.log_y else TOP + 12 + 14 * index
        left = LEFT + 175 if self.log_y else LEFT + 8
        return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots,
                f'<rect x="{left}" y="{above - 8}" width="10" height="10" fill="{colour}"/>', text(left + 14, above + 1, name)]


def panels(kept: dict) -> list:
    """Of the figures that there are."""
    made = []
    if "ceiling" in kept:
        figures = kept["ceiling"]["figures"]
        names = {"ours": "moonfence", "bare": "bare client, connections warm", "cold": "bare client, cold",
                 "serial": "one after another"}
        made.append(Panel("Deleting the pods of one node", "pods", "seconds", {
            name: [(s, median(figures["trials"][str(s)][way])) for s in figures["sizes"]] for way, name in names.items()}))
    if "footprint" in kept:
        sizes = [f for f in kept["footprint"]["figures"]["sizes"] if f["pods"] == 0]
        made.append(Panel("Memory", "nodes", "MB", {
            name: [(f["nodes"], f[field]) for f in sizes]
            for name, field in (("resident", "VmRSS"), ("peak at a relist", "relist"), ("own data", "RssAnon"))},
            log_x=False, log_y=False, goal=("goal: 30 MB resident", 30)))
        made.append(Panel("From start to synced", "nodes", "seconds", {
            name: [(f["nodes"], median(f[field])) for f in sizes]
            for name, field in (("moonfence", "synced"), ("curl, the same lists", "curl"))},
            log_x=False, log_y=False))
    if "decision" in kept:
        found = kept["decision"]["figures"]
        policies = sorted(n.partition("/")[2] for n in found if n.startswith("policy/"))
        made.append(Panel("One decision", "KB of policy", "µs", {
            "shipped policies": sorted((found[f"policy/{n}"]["source_KB"][0], median(found[f"policy/{n}"]["median_us"]))
                                       for n in policies)},
            log_x=False, log_y=False, goal=("goal: 100 µs", 100)))
    return made


def draw(kept: dict) -> str:
    made = panels(kept)
    across = 2
    down = -(-len(made) // across)
    width, height = across * WIDTH + GAP, down * HEIGHT + (down - 1) * GAP // 2
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'font-family="DejaVu Sans, Arial, sans-serif" fill="#222222">', '<title>Measurements of docs/performance.md</title>',
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for index, panel in enumerate(made):
        x, y = index % across * (WIDTH + GAP), index // across * (HEIGHT + GAP // 2)
        parts.append(f'<g transform="translate({x} {y})">\n{panel.svg()}\n</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"
