#!/usr/bin/env python3
"""The checker of histories accepts what is right and finds each kind of wrong."""
import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from history_checker import NEVER, History, Listing, Operation, WatchEvent, WatchSegment, check


def good():
    """Two clients on one object: created at 1, updated at 2, updated at 4 (3 is another object), deleted at 5."""
    return History(
        operations=[
            Operation("create", "a", 0, 1, "ok", "v1", None, 1),
            Operation("update", "a", 2, 3, "ok", "v2", 1, 2),
            Operation("update", "a", 2, 3.5, "conflict", "x", 1),
            Operation("create", "b", 2, 4, "ok", "w1", None, 3),
            Operation("get", "a", 4, 5, "ok", "v2", None, 2),
            Operation("update", "a", 6, 7, "ok", "v3", 2, 4),
            Operation("get", "a", 6, 7, "ok", "v2", None, 2),
            Operation("delete", "a", 8, 9, "ok", None, 4, 5),
            Operation("get", "a", 10, 11, "missing"),
        ],
        listings=[Listing(5, 5.5, 3, {"a": (2, "v2"), "b": (3, "w1")})],
        watches=[WatchSegment(1, 5, [WatchEvent("MODIFIED", "a", 2, "v2"), WatchEvent("ADDED", "b", 3, "w1"),
                                     WatchEvent("MODIFIED", "a", 4, "v3"), WatchEvent("DELETED", "a", 5, "v3")])])


class CheckerTest(unittest.TestCase):
    def assert_found(self, change, part):
        history = good()
        change(history)
        violations = check(history)
        self.assertTrue(any(part in each for each in violations), violations)

    def test_a_right_history_passes(self):
        self.assertEqual(check(good()), [])

    def test_stale_read(self):
        def change(history):
            history.operations.append(Operation("get", "a", 7.5, 7.8, "ok", "v2", None, 2))
        self.assert_found(change, "stale read")

    def test_lost_write(self):
        def change(history):
            history.operations.append(Operation("get", "b", 10, 11, "missing"))
        self.assert_found(change, "without a reason")

    def test_lost_update(self):
        def change(history):
            history.operations.append(Operation("update", "b", 12, 13, "ok", "w2", 3, 6))
            history.operations.append(Operation("update", "b", 12, 13, "ok", "w3", 3, 7))
        self.assert_found(change, "depended on")

    def test_two_creations(self):
        def change(history):
            history.operations.append(Operation("create", "b", 12, 13, "ok", "w2", None, 6))
        self.assert_found(change, "although it existed")

    def test_conflict_without_a_reason(self):
        def change(history):
            history.operations.append(Operation("update", "b", 12, 13, "conflict", "w2", 3))
        self.assert_found(change, "without a reason")

    def test_revisions_against_real_time(self):
        def change(history):
            history.operations.append(Operation("create", "c", 20, 21, "ok", "c1", None, 0))
        self.assert_found(change, "had been told")

    def test_value_that_nobody_wrote(self):
        def change(history):
            history.operations.append(Operation("get", "b", 12, 13, "ok", "other", None, 9))
        self.assert_found(change, "nobody wrote")

    def test_a_list_that_mixes_two_states(self):
        def change(history):
            history.listings[0].items["a"] = (1, "v1")
        self.assert_found(change, "a list at 3")

    def test_watch_that_misses_repeats_or_reorders(self):
        def miss(history):
            del history.watches[0].events[1]
        self.assert_found(miss, "missed revision 3")

        def repeat(history):
            history.watches[0].events.insert(1, copy.copy(history.watches[0].events[0]))
        self.assert_found(repeat, "out of order or twice")

    def test_an_unanswered_write_may_have_happened_or_not(self):
        history = good()
        history.operations.append(Operation("update", "b", 12, NEVER, "unknown", "w2", 3))
        self.assertEqual(check(history), [])
        history.operations.append(Operation("get", "b", 14, 15, "ok", "w2", None, 6))
        self.assertEqual(check(history), [])
        history.operations.append(Operation("get", "b", 16, 17, "ok", "w1", None, 3))
        self.assertTrue(any("stale read" in each for each in check(history)))

    def test_an_unanswered_deletion_may_have_happened_unseen(self):
        history = good()
        history.operations.append(Operation("delete", "b", 12, NEVER, "unknown", None, 3))
        history.listings.append(Listing(14, 15, 6, {}))
        history.operations.append(Operation("create", "b", 16, 17, "ok", "w9", None, 7))
        self.assertEqual(check(history), [])

    def test_an_unanswered_write_explains_a_conflict(self):
        history = good()
        history.operations.append(Operation("update", "b", 12, NEVER, "unknown", "w2", 3))
        history.operations.append(Operation("update", "b", 14, 15, "conflict", "w3", 3))
        self.assertEqual(check(history), [])


if __name__ == "__main__":
    unittest.main()
