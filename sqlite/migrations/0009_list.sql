-- What lists are filtered by: the name of the program, the run that a run comes from, when
-- it ended, and what it has cost when its row was last written, in 10⁻⁹ USD. Names of
-- programs stand in documents, which are no part of the database: runs made before have none.
ALTER TABLE runs ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN ended INTEGER;
ALTER TABLE runs ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET parent = coalesce((SELECT json_extract(CAST(bytes AS TEXT), '$.body.parent.run') FROM records
		WHERE run = n AND seq = 1 AND json_valid(CAST(bytes AS TEXT))), base),
	ended = CASE WHEN state IN ('completed', 'failed', 'cancelled') THEN updated END,
	cost = CASE WHEN json_valid(fold) THEN coalesce(json_extract(fold, '$.ledger.used.cost_usd'), 0) ELSE 0 END;

CREATE TABLE run_labels (
	name  TEXT    NOT NULL,
	value TEXT    NOT NULL,
	run   INTEGER NOT NULL,
	PRIMARY KEY (name, value, run)
) WITHOUT ROWID;
INSERT INTO run_labels (name, value, run) SELECT label.key, label.value, run FROM records,
	json_each(CASE WHEN json_valid(CAST(bytes AS TEXT)) THEN json_extract(CAST(bytes AS TEXT), '$.body.labels') END) AS label WHERE seq = 1 AND label.type = 'text';

-- What a search looks at, in small letters: title, name, labels and id. In a table of its own,
-- so that to read all of it is to read little.
CREATE TABLE run_search (
	run  INTEGER PRIMARY KEY,
	text TEXT NOT NULL
);
INSERT INTO run_search (run, text) SELECT n, lower(title || char(10) || coalesce((SELECT group_concat(name || '=' || value, char(10)) FROM run_labels WHERE run = n), '') || char(10) || id) FROM runs;

-- Lists are read from the newest on, of one user or of all.
DROP INDEX runs_state;
CREATE INDEX runs_state ON runs (state, n);
CREATE INDEX runs_kind ON runs (kind, n);
CREATE INDEX runs_kind_user ON runs (user, kind, n);
CREATE INDEX runs_name ON runs (name, n) WHERE name <> '';
CREATE INDEX runs_name_user ON runs (user, name, n) WHERE name <> '';
CREATE INDEX runs_parent ON runs (parent, n) WHERE parent <> '';
CREATE INDEX runs_created ON runs (created, user, state, cost);
CREATE INDEX runs_ended ON runs (ended, user) WHERE ended IS NOT NULL;
