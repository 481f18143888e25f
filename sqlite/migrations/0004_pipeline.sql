-- A pipeline's run belongs to an Envelope, was made by a request of its user, and
-- may belong to a thread of theirs.
ALTER TABLE runs ADD COLUMN envelope TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN request TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN thread TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_envelope ON runs (envelope, n) WHERE envelope <> '';
CREATE INDEX runs_request ON runs (request, user, n) WHERE request <> '';
CREATE INDEX runs_thread ON runs (thread, user, n) WHERE thread <> '';
