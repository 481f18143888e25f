package runner_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// blindStore cannot, for a while, read back a run that has taken a step.
type blindStore struct {
	flow.Store
	blind atomic.Bool
}

func (s *blindStore) Records(ctx context.Context, run string, after int64, limit int) ([]flow.Stored, error) {
	records, err := s.Store.Records(ctx, run, after, limit)
	if s.blind.Load() && slices.ContainsFunc(records, func(r flow.Stored) bool { return r.Kind == "plan.step" }) {
		return nil, errors.New("the disk does not answer")
	}
	return records, err
}

// Nobody signs for records that cannot be read: the run stays open, and ends when
// it is resumed.
func TestARunThatCannotBeAccountedForDoesNotEnd(t *testing.T) {
	b := newBed(t)
	b.write("a.txt", "hello")
	store := &blindStore{Store: b.store}
	store.blind.Store(true)
	b.Runner.Store = store
	run, driven := b.run(`root: {id: a, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: a.txt}}`)
	if driven.Outcome != string(tipstaff.Interrupted) {
		t.Fatalf("it ended %+v", driven)
	}
	store.blind.Store(false)
	kinds := b.kinds(run)
	if kinds[len(kinds)-1] != "run.interrupted" || slices.Contains(kinds, "intent.attest") {
		t.Errorf("the records are %v", kinds)
	}
	if driven := b.resume(run); driven.Outcome != "success" {
		t.Errorf("resumed it ended %+v", driven)
	}
	b.verified(run)
}
