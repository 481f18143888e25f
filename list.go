package tipstaff

import (
	"cmp"
	"time"
)

// ListRequest selects runs.
type ListRequest struct {
	Limit  int      `json:"limit,omitempty"` // from 1 to 1000; 0 is 50
	Before ID       `json:"before,omitzero"` // runs older than this one
	Status []string `json:"status,omitempty"`
	Prefix string   `json:"prefix,omitempty"` // of the id
	// Envelope and Thread find the head of a pipeline's line of runs, Request the
	// draft that a request made; of the caller's own. "": all.
	Envelope string `json:"envelope_id,omitempty"`
	Thread   string `json:"thread_id,omitempty"`
	Request  string `json:"request_id,omitempty"`
	// Session selects the turns of one conversation. Heads selects the last turn of every
	// conversation; Prefix is then of the session's id. Own leaves out what belongs to
	// other users, for callers who see that.
	Session string `json:"session,omitempty"`
	Heads   bool   `json:"heads,omitempty"`
	Own     bool   `json:"own,omitempty"`
	// Project selects runs that are about a folder.
	Project string `json:"project_dir,omitempty"`
	// Kind and Program select by the kind and the name of the program, User by whose runs
	// they are, Parent those that come from a run, Since those made then or later.
	Kind    string    `json:"kind,omitempty"`
	Program string    `json:"program,omitempty"`
	User    string    `json:"user,omitempty"`
	Parent  ID        `json:"parent_run_id,omitzero"`
	Since   time.Time `json:"since,omitzero"`
	// Labels selects those with these labels; the value "" is any.
	Labels map[string]string `json:"labels,omitempty"`
	// Text is looked for in titles, names of programs, labels and ids of the newest 100,000
	// runs, small and capital letters alike.
	Text    string `json:"text,omitempty"`
	Count   bool   `json:"count,omitempty"`    // also tell how many there are
	CountTo int    `json:"count_to,omitempty"` // of Count: no further than this, and one; 0: all
	// ByStatus has the page tell how many there are of each status, whatever Status selects.
	ByStatus bool `json:"by_status,omitempty"`
	// Today has the page tell what all runs that the caller may see are doing, and what
	// they have done since then. Zero: it does not.
	Today time.Time `json:"today,omitzero"`
}

// CountMost is how far runs are counted one by one: there may be more.
const CountMost = 1000

// StatusCounts is how many runs have each status. CountMost + 1 means more than that.
type StatusCounts struct {
	Of map[string]int `json:"of"`
	// Partial: more than CountMost runs have not ended, and only the newest of them are in
	// the counts of statuses that are no ends.
	Partial bool `json:"partial,omitempty"`
}

// RunCounts is what runs are doing. Of those that ended, CountMost + 1 means more than that.
type RunCounts struct {
	Running     int `json:"running"`
	Waiting     int `json:"waiting"`
	Interrupted int `json:"interrupted"`
	// Of runs that ended since the time that was asked for, and of runs that began since:
	Ended int `json:"ended"`
	Cost  USD `json:"cost_usd"`
	// Partial: more than CountMost runs have not ended, and only the newest of them are in
	// the first three and in the cost.
	Partial bool `json:"partial,omitempty"`
}

// InboxRequest selects undecided gates.
type InboxRequest struct {
	Limit int        `json:"limit,omitempty"` // from 1 to 200; 0 is 50
	Kinds []GateKind `json:"kinds,omitempty"` // nil: all
	After ID         `json:"after,omitzero"`  // the gate that the last page ended with
	// Program selects those of runs of a program of this name, Due those that expire by then.
	Program string    `json:"program,omitempty"`
	Due     time.Time `json:"due,omitzero"`
	// ByProgram has the page tell how many there are of each program, whatever Program selects.
	ByProgram bool `json:"by_program,omitempty"`
}

// InboxPage is one page of undecided gates.
type InboxPage struct {
	Gates  []InboxGate      `json:"gates"`
	Total  int              `json:"total"`         // that the caller may see, of the kinds asked for
	Next   ID               `json:"next,omitzero"` // zero: no more
	ByKind map[GateKind]int `json:"by_kind"`
	// ByProgram is how many there are of each program, "" for those without a name, if that
	// was asked for.
	ByProgram map[string]int `json:"by_program,omitempty"`
}

// InboxGate is an undecided gate with the run that asks.
type InboxGate struct {
	Run           ID     `json:"run_id"`
	Title         string `json:"title"`
	Project       string `json:"project_dir,omitempty"`
	User          string `json:"user"`
	Status        string `json:"status"`
	Control       string `json:"control"`
	ControlReason string `json:"control_reason,omitempty"`
	Cost          USD    `json:"cost_usd"` // of the run, so far
	Gate          Gate   `json:"gate"`
}

// AskingGate is a gate of a run as the inbox shows it.
func AskingGate(r Run, g Gate) InboxGate {
	return InboxGate{Run: r.ID, Title: cmp.Or(r.Title, r.Program.Name), Project: r.Project, User: r.User, Status: r.Status, Control: r.Control, ControlReason: r.ControlReason,
		Cost: USD(r.Bounds[BoundCostUSD].Used), Gate: g}
}

// ThreadsRequest selects threads.
type ThreadsRequest struct {
	Limit  int `json:"limit,omitempty"` // from 1 to 200; 0 is 50
	Before ID  `json:"before,omitzero"` // those whose head is older than this run
}

// ThreadPage is one page of threads.
type ThreadPage struct {
	Threads []Thread `json:"threads"`
	Next    ID       `json:"next,omitzero"` // zero: no more
}

// Thread is a line of runs of pipelines.
type Thread struct {
	ID   string `json:"thread_id"`
	Runs int    `json:"runs"`
	Head Run    `json:"head"` // its last
}

// RunPage is one page of a list.
type RunPage struct {
	Runs []Run `json:"runs"`
	Next ID    `json:"next,omitzero"` // zero: no more
	// Total is how many there are on all pages, if that was asked for.
	Total  int        `json:"total,omitempty"`
	Counts *RunCounts `json:"counts,omitempty"` // if they were asked for
	// ByStatus is how many there are of each status, if that was asked for.
	ByStatus *StatusCounts `json:"by_status,omitempty"`
	// Strays is how many runs have left signed files beside a store that holds no run at
	// all: its database was removed or replaced.
	Strays int `json:"strays,omitempty"`
}
