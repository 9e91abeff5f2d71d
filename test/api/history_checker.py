"""Checks the history of concurrent clients of an API server: is there one order of all operations, in agreement with real
time, in which every answer is right?

The server numbers its writes (resource versions), so the order is not searched for but given: the checker verifies that the
numbers agree with real time and that every answer fits the state at its number. An operation whose answer was lost may have
happened or not; if anybody saw what it wrote, it counts as one that happened some time after it began.
"""
import bisect
import collections
import dataclasses
from typing import Optional

NEVER = float("inf")


@dataclasses.dataclass
class Operation:
    kind: str                       # "get", "create", "update", "delete"
    key: str
    start: float
    end: float                      # NEVER if no answer came
    outcome: str                    # "ok", "conflict", "exists", "missing", "unknown"; "deleted": done, at a number not told
    value: Optional[str] = None     # written, or read
    expected: Optional[int] = None  # the version on which a write depends
    revision: Optional[int] = None  # of the write, or of what was read


@dataclasses.dataclass
class Listing:
    start: float
    end: float
    revision: int
    items: dict                     # key -> (revision, value)


@dataclasses.dataclass
class WatchEvent:
    kind: str                       # "ADDED", "MODIFIED", "DELETED"
    key: str
    revision: int
    value: str


@dataclasses.dataclass
class WatchSegment:
    """What one unbroken watch saw: every event of all keys after `after` up to `until`."""
    after: int
    until: int
    events: list


@dataclasses.dataclass
class Effect:
    """A write that happened."""
    key: str
    revision: int
    value: Optional[str]            # None: the object was deleted
    start: float
    end: float
    kind: str
    expected: Optional[int]


@dataclasses.dataclass
class History:
    operations: list = dataclasses.field(default_factory=list)
    listings: list = dataclasses.field(default_factory=list)
    watches: list = dataclasses.field(default_factory=list)


class _Latest:
    """The largest revision that anybody had been told before some moment."""

    def __init__(self, pairs):
        self.ends, self.largest = [], []
        for end, revision in sorted(pairs):
            if end == NEVER:
                continue
            self.ends.append(end)
            self.largest.append(max(revision, self.largest[-1] if self.largest else 0))

    def before(self, moment):
        index = bisect.bisect_left(self.ends, moment)
        return self.largest[index - 1] if index else 0


class Checker:
    def __init__(self, history):
        self.history = history
        self.violations = []
        self.unanswered_deletes = collections.defaultdict(list)
        for op in history.operations:
            if op.kind == "delete" and op.outcome in ("unknown", "deleted"):
                self.unanswered_deletes[op.key].append(op.start)
        self.effects = self._effects()
        self.by_key = collections.defaultdict(list)
        for effect in self.effects:
            self.by_key[effect.key].append(effect)

    def complain(self, text):
        self.violations.append(text)

    def run(self):
        self._check_numbers()
        self._check_real_time()
        self._check_writes()
        self._check_refusals()
        self._check_reads()
        self._check_listings()
        self._check_watches()
        return self.violations

    def _effects(self):
        effects, unanswered = [], {}
        for op in self.history.operations:
            if op.kind == "get":
                continue
            if op.outcome == "ok":
                value = None if op.kind == "delete" else op.value
                effects.append(Effect(op.key, op.revision, value, op.start, op.end, op.kind, op.expected))
            elif op.outcome == "unknown" and op.kind != "delete":
                unanswered[(op.key, op.value)] = op
        known = {effect.revision for effect in effects}
        deletions = []
        for key, revision, value in self._sightings():
            if revision in known:
                continue
            known.add(revision)
            if value is None:
                deletions.append((revision, key))
                continue
            op = unanswered.get((key, value))
            if op is None:
                self.complain(f"{key}: revision {revision} has {value!r}, which nobody wrote there")
                continue
            effects.append(Effect(key, revision, value, op.start, NEVER, op.kind, op.expected))
        return sorted(effects + self._deletions(effects, deletions), key=lambda effect: effect.revision)

    def _deletions(self, effects, sighted):
        """Deletions are answered without a number: each one that was seen belongs to a request for the version before it."""
        asked = {}  # the one that was told of its success, else the earliest, which allows the most
        requests = [op for op in self.history.operations if op.kind == "delete" and op.outcome in ("deleted", "unknown")]
        for op in sorted(requests, key=lambda each: (each.outcome != "deleted", each.start)):
            asked.setdefault((op.key, op.expected), op)
        versions = collections.defaultdict(list)
        for effect in effects:
            versions[effect.key].append(effect.revision)
        result = []
        for revision, key in sorted(sighted):
            before = max((each for each in versions[key] if each < revision), default=None)
            op = asked.get((key, before))
            if op is None:
                self.complain(f"{key}: deleted at {revision}, although nobody asked to delete version {before}")
                continue
            result.append(Effect(key, revision, None, op.start, op.end, "delete", op.expected))
        return result

    def _sightings(self):
        for op in self.history.operations:
            if op.kind == "get" and op.outcome == "ok":
                yield op.key, op.revision, op.value
        for listing in self.history.listings:
            for key, (revision, value) in listing.items.items():
                yield key, revision, value
        for watch in self.history.watches:
            for event in watch.events:
                yield event.key, event.revision, None if event.kind == "DELETED" else event.value

    def _version_at(self, key, revision):
        """The newest effect on the key up to a revision."""
        effects = self.by_key[key]
        index = bisect.bisect_right([effect.revision for effect in effects], revision)
        return effects[index - 1] if index else None

    def _may_be_deleted(self, key, moment):
        """Whether a deletion without an answer, which nobody saw, may have happened before that."""
        return any(start < moment for start in self.unanswered_deletes[key])

    def _check_numbers(self):
        for one, two in zip(self.effects, self.effects[1:]):
            if one.revision == two.revision:
                self.complain(f"revision {one.revision} was given twice: {one} and {two}")

    def _check_real_time(self):
        latest = _Latest([(effect.end, effect.revision) for effect in self.effects] +
                         [(listing.end, listing.revision) for listing in self.history.listings])
        for effect in self.effects:
            told = latest.before(effect.start)
            if effect.revision <= told:
                self.complain(f"{effect} began after revision {told} had been told")
        for listing in self.history.listings:
            told = latest.before(listing.start)
            if listing.revision < told:
                self.complain(f"a list at revision {listing.revision} began after revision {told} had been told")

    def _check_writes(self):
        for key, effects in self.by_key.items():
            for before, effect in zip([None, *effects], effects):
                exists = before is not None and before.value is not None
                if effect.kind == "create" and exists and not self._may_be_deleted(key, effect.end):
                    self.complain(f"{key}: created at {effect.revision} although it existed since {before.revision}")
                if effect.kind in ("update", "delete") and not exists:
                    self.complain(f"{key}: {effect.kind} at {effect.revision} although there was none")
                if effect.expected is not None and exists and effect.expected != before.revision:
                    self.complain(f"{key}: {effect.kind} at {effect.revision} depended on {effect.expected}, "
                                  f"but {before.revision} was there")

    def _check_refusals(self):
        """Every refusal has a reason that may have been true in its time."""
        for op in self.history.operations:
            if op.outcome not in ("conflict", "exists", "missing"):
                continue
            if not any(self._holds(op, state) for state in self._states_during(op)):
                self.complain(f"{op.key}: {op.kind} was refused ({op.outcome}, expected {op.expected}) without a reason")

    @staticmethod
    def _holds(op, state):
        exists = state is not None and state.value is not None
        if op.outcome == "exists":
            return exists
        if op.outcome == "missing":
            return not exists
        return not exists or state.revision != op.expected

    def _states_during(self, op):
        """The states of the key that an operation may have met, as far as they are known."""
        effects = self.by_key[op.key]
        surely = [i for i, effect in enumerate(effects) if effect.end < op.start]
        first = surely[-1] if surely else -1
        yield effects[first] if first >= 0 else None
        for effect in effects[first + 1:]:
            if effect.start < op.end:
                yield effect
        # A write without an answer that nobody saw may have happened too.
        for other in self.history.operations:
            if other.key == op.key and other.outcome in ("unknown", "deleted") and other.kind != "get" and other.start < op.end:
                yield Effect(op.key, -1, None if other.kind == "delete" else other.value, other.start, NEVER, other.kind, None)

    def _check_reads(self):
        told = collections.defaultdict(list)
        for effect in self.effects:
            told[effect.key].append((effect.end, effect.revision))
        for op in self.history.operations:
            if op.kind == "get" and op.outcome == "ok":
                told[op.key].append((op.end, op.revision))
        latest = {key: _Latest(pairs) for key, pairs in told.items()}
        for op in self.history.operations:
            if op.kind != "get" or op.outcome != "ok":
                continue
            version = self._version_at(op.key, op.revision)
            if version is None or version.revision != op.revision or version.value != op.value:
                self.complain(f"{op.key}: read {op.value!r} at {op.revision}, but {version} was written")
                continue
            if version.start > op.end:
                self.complain(f"{op.key}: read {op.value!r} before it was written")
            newest = latest[op.key].before(op.start)
            if op.revision < newest:
                self.complain(f"{op.key}: read revision {op.revision} after {newest} had been told: a stale read")

    def _check_listings(self):
        for listing in self.history.listings:
            for key in set(self.by_key) | set(listing.items):
                version = self._version_at(key, listing.revision)
                expected = None if version is None or version.value is None else (version.revision, version.value)
                if key not in listing.items and self._may_be_deleted(key, listing.end):
                    continue
                if listing.items.get(key) != expected:
                    self.complain(f"a list at {listing.revision} has {listing.items.get(key)} for {key}, not {expected}")

    def _check_watches(self):
        revisions = [effect.revision for effect in self.effects]
        for watch in self.history.watches:
            seen = [event.revision for event in watch.events]
            if seen != sorted(set(seen)):
                self.complain(f"a watch saw events out of order or twice: {seen}")
            wanted = revisions[bisect.bisect_right(revisions, watch.after):bisect.bisect_right(revisions, watch.until)]
            for revision in sorted(set(wanted) - set(seen)):
                self.complain(f"a watch from {watch.after} to {watch.until} missed revision {revision}")
            by_revision = {effect.revision: effect for effect in self.effects}
            for event in watch.events:
                effect = by_revision.get(event.revision)
                if effect is None or effect.key != event.key:
                    self.complain(f"a watch saw {event}, which was not written")
                elif (effect.value is None) != (event.kind == "DELETED"):
                    self.complain(f"a watch saw {event} for {effect}")


def check(history):
    """The violations, as sentences; none if the history is linearizable."""
    return Checker(history).run()
