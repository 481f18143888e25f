-- The memory: one log for the whole store, hash-chained, and what follows from
-- it. The log is the truth; the other two tables can be built from it again.
CREATE TABLE cortex_log (
	seq   INTEGER PRIMARY KEY,      -- from 1, without gaps
	kind  TEXT    NOT NULL,
	run   INTEGER NOT NULL,         -- whose event or end it tells of; 0: none
	bytes BLOB    NOT NULL,
	hash  BLOB    NOT NULL
);
-- A run ends once.
CREATE UNIQUE INDEX cortex_log_ends ON cortex_log (run) WHERE kind = 'attest';

-- One row for each item. What it says is in its record.
CREATE TABLE cortex_items (
	seq        INTEGER PRIMARY KEY, -- of the record that remembers it
	type       TEXT    NOT NULL,
	run        INTEGER NOT NULL,    -- of an event; 0: none
	skill      TEXT    NOT NULL,    -- what it is about; '': anything
	verb       TEXT    NOT NULL,
	server     TEXT    NOT NULL,
	importance INTEGER NOT NULL,
	pinned     INTEGER NOT NULL,
	created    INTEGER NOT NULL,
	last_use   INTEGER NOT NULL,
	accesses   INTEGER NOT NULL DEFAULT 0,
	citations  INTEGER NOT NULL DEFAULT 0,
	tombstone  INTEGER NOT NULL DEFAULT 0 -- seq of the record that forgets it
);
CREATE INDEX cortex_items_run ON cortex_items (run);
-- Few items are anything but events that nobody has used since.
CREATE INDEX cortex_items_used ON cortex_items (seq) WHERE type <> 'event' OR accesses > 0 OR citations > 0;

-- The children of a run, whose events it answers for when it ends.
CREATE INDEX records_children ON records (run, seq) WHERE kind = 'intent.dispatch';

CREATE TABLE cortex_weights (
	id  INTEGER PRIMARY KEY CHECK (id = 1),
	r   INTEGER NOT NULL,
	a   INTEGER NOT NULL,
	c   INTEGER NOT NULL,
	d   INTEGER NOT NULL,
	v   INTEGER NOT NULL,
	seq INTEGER NOT NULL            -- of the last learn_weights
);
INSERT INTO cortex_weights VALUES (1, 250000000, 150000000, 300000000, 200000000, 100000000, 0);
