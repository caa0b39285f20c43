"""What a log says is read as it was written."""

from .told import parse, seconds_of

LOG = """\
2026-11-29T04:35:58.101036282Z stderr F 2026-11-29T04:35:58.100Z INFO  machine_silent node=node-3 quiet=4s17462644ns
2026-11-29T04:36:06.325430218Z stdout F {"schema":1,"kind":"incident_opened","reason":"node_lost","node":"node-3"}
2026-11-29T04:36:06.336601866Z stderr F 2026-11-29T04:36:06.335Z INFO  intent reason=sets_quarantine node=node-3 text="before the deletion"
2026-11-29T04:36:07.100000000Z stderr P 2026-11-29T04:36:07.100Z INFO  torn node=nod
"""


def test_events_have_their_time_and_words():
    first, second = parse("uid", LOG)
    assert (first.event, first.words["node"], second.event) == ("machine_silent", "node-3", "intent")
    assert second.words == {"reason": "sets_quarantine", "node": "node-3", "text": "before the deletion"}
    assert round(second.at - first.at, 3) == 8.235


def test_durations_are_seconds():
    assert round(seconds_of("4s17462644ns"), 3) == 4.017
    assert seconds_of("1m2s") == 62
    assert round(seconds_of("350ms"), 3) == 0.35
