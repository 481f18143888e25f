package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Examination gathers what is wrong with a store.
type Examination struct {
	Place   string // of the database
	Restore string // what to do about what is lost
	Alive   func(flow.Owner, time.Time) bool
	Now     time.Time
	Damaged func(error) bool // a failure to read says that the database is not what was written
	Found   []tipstaff.Diagnostic

	count map[string]int // by code
}

// MostAlike is how many findings of one code are listed.
const MostAlike = 20

// clockSlack is how far clocks may differ that agree.
const clockSlack = time.Minute

func (x *Examination) add(severity, code, where, remedy, format string, args ...any) {
	if x.count == nil {
		x.count = map[string]int{}
	}
	if x.count[code]++; x.count[code] <= MostAlike {
		x.Found = append(x.Found, tipstaff.Diagnostic{Severity: severity, Code: code, Where: where, Message: fmt.Sprintf(format, args...), Remedy: remedy})
	}
}

// Error tells of something that is lost, or cannot be used.
func (x *Examination) Error(code, where, remedy, format string, args ...any) {
	x.add(tipstaff.SeverityError, code, where, remedy, format, args...)
}

// Warn tells of something that should be dealt with.
func (x *Examination) Warn(code, where, remedy, format string, args ...any) {
	x.add(tipstaff.SeverityWarning, code, where, remedy, format, args...)
}

// Has reports whether anything of a code was found.
func (x *Examination) Has(code string) bool { return x.count[code] > 0 }

// End says what was found, and how much of it is not listed.
func (x *Examination) End() []tipstaff.Diagnostic {
	for _, code := range slices.Sorted(maps.Keys(x.count)) {
		if n := x.count[code]; n > MostAlike {
			x.Found = append(x.Found, tipstaff.Diagnostic{Severity: tipstaff.SeverityWarning, Code: code, Where: x.Place,
				Message: fmt.Sprintf("%d more of this kind are not listed", n-MostAlike), Remedy: "fix those that are listed, then run tipstaff doctor again"})
		}
	}
	return x.Found
}

// Failed tells of a check that could not be made.
func (x *Examination) Failed(where string, err error) {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
	case x.Damaged(err):
		x.Error("database_damaged", where, x.Restore, "it is damaged: %v", err)
	default:
		x.Error("unreadable", where, "give this user the right to read it, check the disk, or end the process that holds it", "it cannot be examined: %v", err)
	}
}

// Query tells of one that failed, unless the damage is known by now.
func (x *Examination) Query(err error) {
	if !x.Has("database_damaged") || !x.Damaged(err) {
		x.Failed(x.Place, err)
	}
}

// Clock looks for a time that has not come yet.
func (x *Examination) Clock(where, what string, at time.Time) {
	if ahead := at.Sub(x.Now); ahead > clockSlack {
		x.Warn("clock", where, "set the clock: expiries and leases go by it", "it %s at %s, which is %s ahead of the clock", what,
			at.UTC().Format(time.RFC3339), ahead.Round(time.Second))
	}
}

// References looks at the rows that name others which must be there.
func (x *Examination) References(ctx context.Context, q Querier) {
	for _, check := range []struct{ query, what string }{
		{`SELECT DISTINCT run FROM records WHERE run NOT IN (SELECT n FROM runs)`, "there are records of run number %s, but no such run"},
		{`SELECT id FROM runs WHERE head > 0 AND NOT EXISTS (SELECT 1 FROM records WHERE run = n AND seq = head)`, "the last record of run %s is missing"},
		{`SELECT id FROM runs WHERE base <> '' AND base NOT IN (SELECT id FROM runs)`, "the run that %s was forked from is missing"},
		{`SELECT id FROM gates g WHERE NOT EXISTS (SELECT 1 FROM records WHERE run = g.run AND seq = g.opened)`, "the record that opened gate %s is missing"},
		{`SELECT DISTINCT digest FROM blob_refs r WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE digest = r.digest)`, "a run refers to blob %s, which is missing"},
	} {
		err := q.Query(ctx, func(r Row) error {
			x.Error("reference", x.Place, "tipstaff verify RUN says what it means for a run; "+x.Restore, check.what, fmt.Sprint(r[0]))
			return nil
		}, check.query)
		x.Query(err)
	}
}

// Examined is what is looked at of a run.
type Examined struct {
	N         int64
	ID, State string
	Alive     bool // somebody drives it
}

// Runs looks at owners and times. all: every run was read.
func (x *Examination) Runs(ctx context.Context, q Querier) (runs []Examined, all bool) {
	err := q.Query(ctx, func(r Row) error {
		run := Examined{N: r.Int(0), ID: r.Text(1), State: r.Text(2)}
		if process := r.Bytes(3); len(process) > 0 {
			owner, _ := ReadOwner(process) // one that cannot be read counts as dead
			run.Alive = owner != nil && x.Alive(*owner, r.Time(4))
			x.Clock("run "+run.ID, "was last heard of", r.Time(4))
			if !run.Alive {
				x.Warn("owner_gone", "run "+run.ID, "tipstaff resume "+run.ID, "the process that drove it is gone, and the run is not marked as interrupted yet")
			}
		}
		x.Clock("run "+run.ID, "was changed", r.Time(5))
		runs = append(runs, run)
		return nil
	}, `SELECT n, id, state, owner, heartbeat, updated FROM runs ORDER BY n`)
	x.Query(err)
	return runs, err == nil
}

// Signers looks whether an unfinished run, given by its first record, can still be signed for.
func (x *Examination) Signers(run Examined, first []byte, ring *Keyring) {
	rec, err := journal.Parse(first)
	var draft tipstaff.IntentDraft
	if err != nil || tipstaff.State(run.State).Terminal() || json.Unmarshal(rec.Body, &draft) != nil {
		return // for verify to tell
	}
	if ring.Public[journal.Executor] != draft.Keys.Executor || ring.Public[journal.User] != draft.Keys.User {
		x.Warn("key_changed", "run "+run.ID, "restore the keys with which it was begun, or tipstaff fork "+run.ID, "it was begun with other keys than those in %s: it can only be forked", ring.Place)
	}
}

// Journals checks every record of every run as if it was about to be obeyed, and that rows
// remember what records say.
func (x *Examination) Journals(ctx context.Context, q Querier, runs []Examined, ring *Keyring) {
	known, err := publicKeys(ctx, q)
	x.Query(err)
	for _, run := range runs {
		if err != nil || ctx.Err() != nil {
			return
		}
		_, fault := checkJournal(ctx, q, run.ID, run.N, ring, known)
		if fault == nil {
			fault = q.Query(ctx, func(r Row) error {
				x.Signers(run, r.Bytes(1), ring)
				if r.Int(0) == 0 {
					return unsound(run.ID, r.Int(2), errors.New("the run row remembers another hash of it"))
				}
				return nil
			}, `SELECT CASE WHEN r.head_hash = last.hash THEN 1 ELSE 0 END, first.bytes, r.head FROM runs r JOIN records last ON last.run = r.n AND last.seq = r.head
				JOIN records first ON first.run = r.n AND first.seq = 1 WHERE r.n = ?`, run.N)
		}
		if errors.Is(fault, flow.ErrIntegrity) {
			x.Error("run_damaged", "run "+run.ID, "tipstaff verify "+run.ID+" says more; "+x.Restore, "%v", fault)
		} else {
			x.Query(fault)
		}
	}
}

// checkJournal checks all records of a run, with their signatures, and returns where it ends.
// Only keys that are known may sign.
func checkJournal(ctx context.Context, q Querier, run string, n int64, ring *Keyring, known []journal.PublicKey) (journal.Head, error) {
	draft, err := readDraft(ctx, q, run, n)
	if err != nil {
		return journal.Head{}, err
	}
	keys := draft.Keys
	if keys == (tipstaff.RunKeys{}) {
		keys = tipstaff.RunKeys{User: ring.Public[journal.User], Executor: ring.Public[journal.Executor]}
	}
	if !slices.Contains(known, keys.User) || !slices.Contains(known, keys.Executor) {
		return journal.Head{}, unsound(run, 1, fmt.Errorf("%w: it publishes keys that were never this store's", journal.ErrUnknownKey))
	}
	part, err := partOf(ctx, q, run, n, keys, 1, journal.Head{})
	if err == nil {
		err = readChecked(ctx, q, &part, run, n, math.MaxInt64, func(flow.Record) error { return nil })
	}
	return part.Head(), err
}
