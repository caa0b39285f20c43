"""A strict reader of the Prometheus text format, version 0.0.4: what it takes, every scraper takes."""

import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)$")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class NotExposition(AssertionError):
    pass


def _labels(text: str, line: str) -> tuple:
    found, rest = {}, text
    while rest:
        match = LABEL.match(rest)
        if not match or match[1] in found:
            raise NotExposition(f"labels: {line}")
        found[match[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
        rest = rest[match.end():]
    return tuple(sorted(found.items()))


def _number(text: str, line: str) -> float:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+|Inf)|NaN", text):
        raise NotExposition(f"value: {line}")
    return float(text.replace("Inf", "inf"))


def _check_histograms(kinds: dict, samples: dict):
    series: dict = {}
    for (name, labels), value in samples.items():
        family = name.removesuffix("_bucket")
        if name.endswith("_bucket") and kinds.get(family) == "histogram":
            le = dict(labels)["le"]
            rest = tuple(item for item in labels if item[0] != "le")
            series.setdefault((family, rest), []).append((float(le.replace("Inf", "inf")), value))
    for (family, labels), buckets in series.items():
        bounds, counts = zip(*buckets)
        if list(bounds) != sorted(set(bounds)) or list(counts) != sorted(counts) or bounds[-1] != math.inf:
            raise NotExposition(f"buckets of {family}{dict(labels)}: {buckets}")
        if samples.get((family + "_count", labels)) != counts[-1] or (family + "_sum", labels) not in samples:
            raise NotExposition(f"count and sum of {family}{dict(labels)}")


def parse(text: str) -> dict:
    """{(name, ((label, value), …)): number}; NotExposition when a rule is broken."""
    if not text.endswith("\n"):
        raise NotExposition("the last line has no end")
    kinds: dict = {}
    helps: set = set()
    samples: dict = {}
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            match = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
            if not match:
                raise NotExposition(line)
            word, name, rest = match.groups()
            if (word == "HELP" and name in helps) or (word == "TYPE" and (name in kinds or rest not in TYPES)):
                raise NotExposition(f"twice, or of no known type: {line}")
            if word == "HELP":
                helps.add(name)
            else:
                kinds[name] = rest
            current = name
            continue
        match = SAMPLE.fullmatch(line)
        if not match:
            raise NotExposition(line)
        name, labels, number = match.groups()
        suffixes = SUFFIXES.get(kinds.get(current, ""), ("",))
        if name not in {current + suffix for suffix in suffixes} or current not in kinds or current not in helps:
            raise NotExposition(f"not of the family {current or '(none)'}: {line}")
        key = (name, _labels(labels or "", line))
        if key in samples:
            raise NotExposition(f"twice: {line}")
        samples[key] = _number(number, line)
        if kinds[current] == "counter" and not samples[key] >= 0:
            raise NotExposition(f"a counter below zero: {line}")
    _check_histograms(kinds, samples)
    return samples
