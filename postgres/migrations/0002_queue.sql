-- Of runs that several servers drive: the machine that one is tied to, the kind of owner that
-- drove it last, and when a server has last taken it from the queue.
ALTER TABLE runs ADD COLUMN host text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN driver text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN claimed bigint NOT NULL DEFAULT 0;
DROP INDEX runs_queued;
CREATE INDEX runs_queued ON runs ("user", n) WHERE queued = 1;
-- Runs that were made and that nobody has come to drive.
CREATE INDEX runs_untouched ON runs (n) WHERE owned = '' AND holder IS NULL AND state NOT IN ('completed', 'failed', 'cancelled');
