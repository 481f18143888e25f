-- Of runs that several servers drive: the machine that one is tied to, the kind of owner that
-- drove it last, and when a server has last taken it from the queue. All who wait are one
-- line each.
ALTER TABLE runs ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN driver TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN claimed INTEGER NOT NULL DEFAULT 0;
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs (user, n) WHERE queued = 1;
