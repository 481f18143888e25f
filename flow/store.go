package flow

import (
	"context"
	"encoding/json"
	"time"
)

// Store is a Log together with what the rest of a system needs of it: creating
// runs, writing to them from outside, and reading. Drives need only the Log.
type Store interface {
	Log
	Writer
	Reader
}

// Writer appends without a lease.
type Writer interface {
	// Create stores a run and its first records in one transaction. A turn that is
	// not the next of its session is ErrSessionBusy.
	Create(context.Context, NewRun, []Draft) error
	// Write appends what f returns, in the transaction in which f looked. An error
	// of f is returned as it is and nothing is stored. f may be called again.
	Write(ctx context.Context, run string, f func(Tx) ([]Draft, error)) error
	// PutBlob stores data durably and returns its digest, sha256:<hex>. Blobs that
	// no record comes to name are collected after an hour.
	PutBlob(ctx context.Context, data []byte) (string, error)
}

// Reader reads what is committed.
type Reader interface {
	Run(ctx context.Context, run string) (Row, error) // ErrNoRun
	Runs(context.Context, Query) ([]Row, error)       // newest first
	// Due are runs that rest and that owners of a kind have driven last, some of those whose
	// time has come: by a timer, or because a run that they wait for has ended.
	Due(ctx context.Context, kind string) (runs []string, err error)
	Gates(context.Context, GateQuery) ([]GateRow, error)
	// CountRuns is how many runs a query selects, up to its limit, and CountGates how many
	// gates, by kind. CostOfRuns is what they have cost, as their rows say: of runs that
	// have ended, all of it.
	CountRuns(context.Context, Query) (int, error)
	// CountStates is how many runs a query selects of each of its States, each up to its limit.
	CountStates(context.Context, Query) (map[string]int, error)
	CostOfRuns(context.Context, Query) (int64, error)
	CountGates(context.Context, GateQuery) (map[string]int, error)
	// Records gives stored bytes after seq, ascending, at most limit.
	Records(ctx context.Context, run string, after int64, limit int) ([]Stored, error)
	Blob(ctx context.Context, digest string) ([]byte, error) // ErrNoBlob
	// Keeps reports whether a record of the run names a blob.
	Keeps(ctx context.Context, run, digest string) (bool, error)
	// Follow signals (without blocking, coalesced) whenever the run has new
	// records or another owner, whoever wrote them, until stop. Of "": whenever a run
	// has come, has changed its state or its owner, or a gate was opened or closed.
	Follow(run string) (changed <-chan struct{}, stop func())
}

// Tx is what a foreign writer sees of the run it writes to.
type Tx interface {
	Row() Row
	Gates(open bool) ([]GateRow, error)
	Now() time.Time // the time its records will carry
}

// Memo is an event for the memory of the store, if it has one: a leaf or a stage
// has ended. It is kept in the transaction of the draft that carries it.
type Memo struct {
	Kind                string // of the node or stage
	Tool                string // URI; "": it called none
	Outcome             string
	Summary             string
	Digest              string // of the result; "": there is none
	Skill, Verb, Server string // what it was about
}

// NewRun is the row of a run that does not exist yet.
type NewRun struct {
	ID, User, Kind, Origin, Title string
	Program                       string // digest
	Base                          string // of a fork: the source
	BaseSeq                       int64
	Blobs                         []string // digests the run keeps alive beside those its records name
	Session                       string   // of a turn; "": it belongs to none
	After                         string   // the run that is the last of the session, or of the Envelope, so far; "": there is none
	// Of a pipeline: the Envelope whose state it is, the request that made it, and the
	// user's key of the line of runs that it belongs to. A thread has one run that has
	// not ended (ErrThreadBusy), a user one run by a request (ErrRequestKnown), unless
	// the new one takes its place. "": none.
	Envelope, Request, Thread string
	// Task is the id of the pending task that the run is to do, which becomes the run's
	// in the same transaction, and Worker is who was chosen for it. "": none.
	Task, Worker string
	// Project is the folder that it is about; "": the workspace. Key is the user's key of
	// the request that makes it, and KeyDigest what that asks for: a key makes one run
	// ([KnownKey]). "": it has none.
	Project, Key, KeyDigest string
	// Name is that of its program, Parent the run that it comes from, for lists; "": none.
	Name, Parent string
	// Host is the machine that it is tied to; "": none.
	Host   string
	Labels map[string]string
	// Alone is a label of which the user has one run at a time that is driven, or waits for its
	// turn ([UnderWay]). "": the run has none.
	Alone string
}

// Row is a run as stored.
type Row struct {
	N                                    int64 // order of creation
	ID, User, Kind, State, Origin, Title string
	Program                              string
	Epoch                                int64
	Owner                                *Owner // nil: nobody holds the lease
	Heartbeat                            time.Time
	Holder                               string // names the open store of that process
	Host                                 string // the machine that it is tied to; "": none
	Driver                               string // the kind of its last owner; "": it had none, or is older than that
	Queued                               bool   // it waits for its turn
	Owned                                string // last of run.started, .resumed, .parked, .interrupted; "" if never driven
	Cont                                 int64  // seq of the last run.continued; 0: none
	Head                                 int64
	HeadHash                             string // sha256:<hex>
	Fold                                 json.RawMessage
	FoldSeq                              int64  // the record up to which Fold was taken
	FoldHash                             string // the hash after it, as the row remembers it
	Cancel                               bool   // a cancel is recorded
	Correction                           int64  // seq of the last run.correction_requested; it is pending if after Cont
	WakeAt                               time.Time
	Base                                 string
	BaseSeq                              int64
	Session                              string // of a turn
	Turn                                 int64  // its number in the session, from 1; 0: it is none
	Envelope, Request, Thread            string // of a pipeline
	Project, Key, KeyDigest              string
	Launch                               *Launch // the process that was last started for it; nil: none was
	Created, Updated                     time.Time
}

// Hold is a lease as stored.
type Hold struct {
	Run, Holder string
	Owner       Owner
	Heartbeat   time.Time
}

// GateRow is a gate as stored.
type GateRow struct {
	Run, ID, Kind, Key string
	Opened             int64 // seq of its policy.gate
	OpenedAt           time.Time
	Body               json.RawMessage // of its policy.gate, payloads attached
	ExpiresAt          time.Time
	Decided            int64        // seq of its policy.gate.resolve; 0: open
	Via                string       // of the decision
	Decision           GateResolved // what closed it; zero: nothing, or the end of its run
}

// Stored is a record as it lies in the store.
type Stored struct {
	Seq   int64
	Kind  string
	Bytes []byte
	Hash  [32]byte
}

// Query selects runs.
type Query struct {
	// Open selects runs that have not ended, Threads the last run of each thread.
	Open, Threads bool

	Limit   int      // 0: all
	Before  int64    // rows with a smaller N; 0: from the newest
	States  []string // any of these; nil: all
	Prefix  string   // of the id
	Leased  bool     // only runs somebody holds
	Holder  string   // only runs that this open store holds; "": all
	Queued  bool     // only runs that wait for their turn
	Session string   // only the turns of this one; "": all
	// Launched selects the runs that a process was started for.
	Launched bool
	Heads    bool // only the last turn of each session; Prefix is then of the session's id
	// Only those of a user, and of an Envelope, a request, a thread, a folder or the key of
	// a request; "": all. The Project "." is the workspace itself.
	User, Envelope, Request, Thread, Project, Key string
	// Only those of a kind of program or of the name of one, and those that come from a run;
	// "": all.
	Kind, Name, Parent string
	// Labels selects those with these; the value "" is any. Text selects those of the newest
	// [SearchedRuns] in whose title, name, labels or id it stands, in small letters.
	Labels     map[string]string
	Text       string
	Since      time.Time // made then or later, and EndedSince: ended then or later; zero: all
	EndedSince time.Time
}

// SearchedRuns is among how many runs a text is looked for.
const SearchedRuns = 100_000

// GateQuery selects gates.
type GateQuery struct {
	Run  string    // "": of all runs, by id: oldest first
	ID   string    // of one gate of the run; "": all
	Open bool      // undecided ones only
	Due  time.Time // only those that expire by then; zero: all
	// Lapsed selects those that were denied because nobody decided them in time, of runs
	// that have not gone on since.
	Lapsed bool

	// Only those of a user's runs, of runs of a program of this name, and of these kinds; ""
	// and nil: all.
	User, Name string
	Kinds      []string
	// ByName has them counted by the name of the program; "" has none.
	ByName bool
	Valid  time.Time // only those that have not expired by then; zero: all
	After  string    // of all runs: only those whose ids come after this one
	Limit  int       // 0: all
}
