-- The folder that a run is about, the key of the request that made it with what that
-- asked for, and the process that was started to drive it, as JSON.
ALTER TABLE runs ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN request_key TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN request_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN launch TEXT;
ALTER TABLE runs ADD COLUMN queued INTEGER NOT NULL DEFAULT 0; -- it waits for its turn
CREATE UNIQUE INDEX runs_request_key ON runs (user, request_key) WHERE request_key <> '';
CREATE INDEX runs_launch ON runs (n) WHERE launch IS NOT NULL;
CREATE INDEX runs_queued ON runs (n) WHERE queued = 1;
-- The inbox is read in this order, and a page begins after a gate.
CREATE INDEX gates_inbox ON gates (opened_at, run, opened) WHERE decided = 0;
-- What nobody decided in time: the daemon looks for runs that can go on because of it.
CREATE INDEX gates_lapsed ON gates (run) WHERE via = 'expiry';
