-- A run as it stood when its row last changed. Records after head are in
-- records alone: a plain step inserts one of them and touches nothing else.
CREATE TABLE runs (
	n          INTEGER PRIMARY KEY,          -- order of creation; what other tables refer to
	id         TEXT    NOT NULL UNIQUE,
	user       TEXT    NOT NULL,
	kind       TEXT    NOT NULL,
	origin     TEXT    NOT NULL,
	title      TEXT    NOT NULL,
	program    TEXT    NOT NULL,
	base       TEXT    NOT NULL,             -- of a fork: the source
	base_seq   INTEGER NOT NULL,
	created    INTEGER NOT NULL,             -- times are nanoseconds since 1970

	state      TEXT    NOT NULL DEFAULT '',
	epoch      INTEGER NOT NULL DEFAULT 0,
	owned      TEXT    NOT NULL DEFAULT '',  -- the last kind that spoke of ownership
	cont       INTEGER NOT NULL DEFAULT 0,   -- seq of the last run.continued
	cancel     INTEGER NOT NULL DEFAULT 0,   -- seq of the last run.cancel_requested
	correction INTEGER NOT NULL DEFAULT 0,   -- seq of the last run.correction_requested
	env        BLOB,                         -- hash of the last envelope
	envs       INTEGER NOT NULL DEFAULT 0,   -- how many there are
	head       INTEGER NOT NULL DEFAULT 0,   -- the record up to which this row was taken
	head_hash  BLOB,
	fold       TEXT,
	wake_at    INTEGER,
	updated    INTEGER NOT NULL,

	holder     TEXT,                         -- the open store that holds the lease; NULL: nobody
	owner      TEXT,                         -- the process, as JSON
	heartbeat  INTEGER
);
CREATE INDEX runs_state ON runs (state, id);
CREATE INDEX runs_user ON runs (user, id);
CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX runs_holder ON runs (holder) WHERE holder IS NOT NULL;

CREATE TABLE records (
	run   INTEGER NOT NULL,
	seq   INTEGER NOT NULL,
	kind  TEXT    NOT NULL,
	bytes BLOB    NOT NULL,
	hash  BLOB    NOT NULL,
	PRIMARY KEY (run, seq)
) WITHOUT ROWID;
-- Where segments begin: a fork asks for the last one before its base.
CREATE INDEX records_segments ON records (run, seq) WHERE kind = 'run.continued';

CREATE TABLE gates (
	run        INTEGER NOT NULL,
	id         TEXT    NOT NULL,
	kind       TEXT    NOT NULL,
	key        TEXT    NOT NULL,
	opened     INTEGER NOT NULL,
	opened_at  INTEGER NOT NULL,
	expires_at INTEGER,
	decided    INTEGER NOT NULL DEFAULT 0,
	via        TEXT    NOT NULL DEFAULT '',
	decision   BLOB,
	PRIMARY KEY (run, id)
) WITHOUT ROWID;
CREATE INDEX gates_open ON gates (expires_at) WHERE decided = 0;
CREATE INDEX gates_undecided ON gates (run, opened) WHERE decided = 0;

-- One row for each record that other processes may wait for.
CREATE TABLE inbox (
	id  INTEGER PRIMARY KEY AUTOINCREMENT,
	run INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	at  INTEGER NOT NULL
);

CREATE TABLE blobs (
	digest  TEXT    PRIMARY KEY,
	size    INTEGER NOT NULL,
	created INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE blob_refs (
	run    INTEGER NOT NULL,
	digest TEXT    NOT NULL,
	PRIMARY KEY (run, digest)
) WITHOUT ROWID;
CREATE INDEX blob_refs_digest ON blob_refs (digest);

-- Every public key that was ever made here: what verify trusts.
CREATE TABLE keys (
	id     TEXT PRIMARY KEY,
	name   TEXT NOT NULL,
	public BLOB NOT NULL
) WITHOUT ROWID;
