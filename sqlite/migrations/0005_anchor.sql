-- A run whose plan asks for it is anchored: where it comes to rest is also written
-- to a file outside the store.
ALTER TABLE runs ADD COLUMN anchor INTEGER NOT NULL DEFAULT 0;
-- What is yet to be written there.
CREATE TABLE outbox (
	run  INTEGER NOT NULL,
	seq  INTEGER NOT NULL,
	hash BLOB    NOT NULL,
	at   INTEGER NOT NULL,
	PRIMARY KEY (run, seq)
) WITHOUT ROWID;
