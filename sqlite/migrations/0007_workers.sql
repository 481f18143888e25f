-- A task is a document; the columns beside it are what is asked for. What a task with a
-- run is now follows from what it was when its run began with it, and from the records of
-- that run since.
CREATE TABLE tasks (
	id       TEXT    PRIMARY KEY,
	number   INTEGER NOT NULL,             -- the id, to count and to sort by
	user     TEXT    NOT NULL,
	status   TEXT    NOT NULL,
	ended    INTEGER NOT NULL,             -- 1: it is completed or abandoned
	run      TEXT    NOT NULL DEFAULT '',  -- that does it; '': none yet
	alias    TEXT    NOT NULL DEFAULT '',  -- its name in the records of the run: of a fork's copy, the id of the original
	path     TEXT    NOT NULL DEFAULT '',  -- of the step or stage that it stands for; '': people made it
	opened   INTEGER NOT NULL DEFAULT 0,   -- seq of the record by which the run began with it
	began    TEXT    NOT NULL DEFAULT '',  -- the document before that record
	revision INTEGER NOT NULL,
	doc      TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX tasks_number ON tasks (number);
CREATE INDEX tasks_run ON tasks (run, alias) WHERE run <> '';

CREATE TABLE task_log (
	n     INTEGER PRIMARY KEY,
	task  TEXT    NOT NULL,
	at    INTEGER NOT NULL,
	level TEXT    NOT NULL,
	text  TEXT    NOT NULL
);
CREATE INDEX task_log_task ON task_log (task, n);

-- The conversations of CLIs, which outlive one invocation. Those of chats are a column of
-- runs.
CREATE TABLE worker_sessions (
	id      TEXT    PRIMARY KEY,
	run     TEXT    NOT NULL,
	path    TEXT    NOT NULL,
	task    TEXT    NOT NULL,
	user    TEXT    NOT NULL,
	state   TEXT    NOT NULL,
	updated INTEGER NOT NULL,
	doc     TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX worker_sessions_run ON worker_sessions (run, path);
CREATE INDEX worker_sessions_user ON worker_sessions (user, updated);
