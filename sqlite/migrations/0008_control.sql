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
-- The inbox is read in this order, which is that of opening: ids begin with the time.
ALTER TABLE gates ADD COLUMN user TEXT NOT NULL DEFAULT ''; -- whose run asks
UPDATE gates SET user = (SELECT user FROM runs WHERE n = gates.run);
CREATE INDEX gates_inbox ON gates (id, kind, expires_at) WHERE decided = 0;
CREATE INDEX gates_inbox_user ON gates (user, id, kind, expires_at) WHERE decided = 0;
-- Lists are read by pages, of one user or of all: what has ended costs nothing where it is
-- not asked for.
DROP INDEX runs_user;
CREATE INDEX runs_user ON runs (user, n);
CREATE INDEX runs_user_state ON runs (user, state, n);
CREATE INDEX runs_open ON runs (n) WHERE state NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX runs_open_user ON runs (user, n) WHERE state NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX runs_threads ON runs (user, n) WHERE thread <> '';
-- What nobody decided in time: the daemon looks for runs that can go on because of it.
CREATE INDEX gates_lapsed ON gates (run) WHERE via = 'expiry';
