-- A session is a chain of turns, each a run of its own.
ALTER TABLE runs ADD COLUMN session TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_session ON runs (session, n) WHERE session <> '';
