package flowtest

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tipstaff/tipstaff/flow"
)

// NewMem is a bed over the memory log. Its crashes lose what a [Faulty] log did
// not hand on, and nothing else.
func NewMem() Bed { return &memBed{mem: flow.NewMem()} }

type memBed struct {
	mem *flow.Mem

	mu   sync.Mutex
	runs []string
}

func (b *memBed) Engine(log flow.Log, opts *flow.Options) flow.Engine { return flow.New(log, opts) }

func (b *memBed) Log() flow.Log { return b.mem }

func (b *memBed) Owner() flow.Owner { return flow.Owner{Kind: "foreground", Pid: 1} }

func (b *memBed) NewRun() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	run := fmt.Sprintf("run-%d", len(b.runs)+1)
	b.runs = append(b.runs, run)
	return run, nil
}

func (b *memBed) Write(run string, d flow.Draft) error { return b.mem.Write(run, d) }

func (b *memBed) Decide(run, gate string, d flow.Decision) error {
	return b.mem.Decide(run, gate, d)
}

func (b *memBed) Records(run string) ([]flow.Record, error) { return b.mem.Records(run), nil }

func (b *memBed) Reopen() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, run := range b.runs {
		if !owned(b.mem.Records(run)) {
			continue
		}
		found := flow.Draft{Kind: "run.interrupted", Body: json.RawMessage(`{"reason":"killed"}`)}
		if err := b.mem.Write(run, found); err != nil {
			return err
		}
	}
	return nil
}

// owned reports whether the last word about ownership is that somebody drives.
func owned(records []flow.Record) bool {
	is := false
	for _, r := range records {
		switch r.Kind {
		case "run.started", "run.resumed":
			is = true
		case "run.parked", "run.interrupted", "intent.attest", "intent.fail", "intent.cancel":
			is = false
		}
	}
	return is
}
