"""What the audit log says of deletions when the API server stood still: no cluster is needed."""

from .audit import Entry, is_once, that_did_it


def deletion(status: int) -> Entry:
    return Entry("moonfence", "", "delete", "pods", "", "shop", "db-0", "", status, "ResponseComplete", 0.0, 0.0, None, {})


def deletions(*statuses: int) -> list:
    return [deletion(status) for status in statuses]


def test_the_one_that_was_answered_did_it():
    """A server that stood still for nine seconds answered 504 to what was done at once when it went on, or was not."""
    refused, given_up, done = entries = deletions(500, 504, 200)
    assert that_did_it(entries, True) == [done]
    assert that_did_it([refused, given_up, deletion(504)], True) == [given_up]
    assert that_did_it([refused, given_up], False) == []
    assert that_did_it([refused], True) == [], "somebody else did it"
    assert that_did_it(deletions(200, 200), True) == deletions(200, 200), "each counts: it must be seen"


def test_a_deletion_is_repeated_only_while_nobody_knows():
    assert is_once(deletions(200)) and is_once(deletions(504)) and is_once(deletions(504, 200)) and is_once(deletions(504, 404))
    assert not is_once([]) and not is_once(deletions(200, 404)) and not is_once(deletions(200, 200))
