package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Mem is a Log in memory: records without bytes, chain or signatures. It serves
// library users who need no proof, and tests. A run exists once it is acquired.
// Acquiring takes a run over from whoever held it: there is no process to ask.
type Mem struct {
	mu   sync.Mutex
	runs map[string]*memRun
}

type memRun struct {
	chunks   [][]Record // of chunkSize, but for the last: a long run is never copied
	epoch    int64
	leased   bool
	ended    Status
	gates    map[string]*memGate
	cancel   *Record
	correct  bool // a correction is stored that no drive has honoured
	cont     int  // index of the last run.continued; -1: none
	segment  int
	watchers map[int]func(Record)
	next     int
}

const chunkSize = 1024

func (r *memRun) len() int {
	if n := len(r.chunks); n > 0 {
		return (n-1)*chunkSize + len(r.chunks[n-1])
	}
	return 0
}

// from gives the records from index i on.
func (r *memRun) from(i int) []Record {
	records := make([]Record, 0, r.len()-i)
	for c := i / chunkSize; c < len(r.chunks); c++ {
		records = append(records, r.chunks[c][i%chunkSize:]...)
		i = 0
	}
	return records
}

type memGate struct {
	key, digest string
	decided     bool
	decision    json.RawMessage
}

// NewMem returns an empty log.
func NewMem() *Mem { return &Mem{runs: map[string]*memRun{}} }

func (m *Mem) run(id string) *memRun {
	r := m.runs[id]
	if r == nil {
		r = &memRun{gates: map[string]*memGate{}, cont: -1, watchers: map[int]func(Record){}}
		m.runs[id] = r
	}
	return r
}

func (m *Mem) Acquire(ctx context.Context, run string, owner Owner) (Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.run(run)
	if r.ended != "" {
		return Lease{}, ErrEnded
	}
	kind := KindRunResumed
	if r.epoch == 0 {
		kind = KindRunStarted
	}
	r.epoch++
	r.leased = true
	r.add(Draft{Kind: kind, Body: JSON(RunStarted{r.epoch, owner.Kind, owner.Pid})}, r.epoch)
	return Lease{Run: run, Epoch: r.epoch}, nil
}

func (m *Mem) Load(ctx context.Context, run string) (History, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.run(run)
	records := r.from(max(r.cont, 0))
	if r.cancel != nil && r.cancel.Seq < records[0].Seq {
		records = slices.Insert(records, 1, *r.cancel)
	}
	return History{Segment: r.segment, Records: records, Ended: r.ended}, nil
}

func (m *Mem) Append(l Lease, drafts []Draft, done func(error)) {
	m.mu.Lock()
	r := m.run(l.Run)
	err := r.fence(l)
	if err == nil && slices.ContainsFunc(drafts, func(d Draft) bool { return d.Beside != nil }) {
		err = errBeside
	}
	if err == nil {
		for _, d := range drafts {
			if rec, ok := r.addChecked(d, l.Epoch); ok && rec.Kind == KindGateResolved {
				r.tell(rec)
			}
		}
	}
	m.mu.Unlock()
	done(err)
}

var errBeside = errors.New("flow: the log in memory writes to one run at a time")

func (r *memRun) fence(l Lease) error {
	switch {
	case r.ended != "":
		return ErrEnded
	case r.epoch != l.Epoch || !r.leased:
		return ErrLeaseLost
	}
	return nil
}

func (m *Mem) Park(l Lease, p Parking) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.run(l.Run)
	if err := r.fence(l); err != nil {
		return false, err
	}
	if r.cancel != nil || r.correct {
		return false, nil
	}
	for _, id := range p.Gates {
		if g := r.gates[id]; g != nil && g.decided {
			return false, nil
		}
	}
	r.add(Draft{Kind: KindRunParked, Body: p.Body()}, l.Epoch)
	r.leased = false
	return true, nil
}

func (m *Mem) Watch(run string, f func(Record)) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.run(run)
	id := r.next
	r.next++
	r.watchers[id] = f
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(r.watchers, id)
	}
}

// Write adds a record that the owner did not write.
func (m *Mem) Write(run string, d Draft) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.run(run)
	if r.ended != "" {
		return ErrEnded
	}
	if d.Beside != nil {
		return errBeside
	}
	if rec, ok := r.addChecked(d, 0); ok {
		r.tell(rec)
	}
	return nil
}

// Decide closes a gate. The same decision again is accepted and writes nothing;
// another is ErrDecided.
func (m *Mem) Decide(run, id string, d Decision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.run(run)
	g := r.gates[id]
	if g == nil {
		return fmt.Errorf("flow: no gate %s in run %s", id, run)
	}
	if d.Via == "" {
		d.Via = "command"
	}
	body := JSON(GateResolved{Gate: id, Action: d.Action, Answer: d.Answer, Feedback: d.Feedback, Note: d.Note, SubjectDigest: g.digest,
		FailReason: d.FailReason, Via: d.Via, OnBehalfOf: d.By})
	switch {
	case g.decided && bytes.Equal(g.decision, body):
		return nil
	case g.decided:
		return fmt.Errorf("%w: gate %s", ErrDecided, id)
	case r.ended != "":
		return ErrEnded
	}
	if rec, ok := r.addChecked(Draft{Kind: KindGateResolved, Path: g.key, From: "user", Body: body}, 0); ok {
		r.tell(rec)
	}
	return nil
}

// Records gives all records of a run.
func (m *Mem) Records(run string) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run(run).from(0)
}

// addChecked leaves out a closing of a gate that was decided.
func (r *memRun) addChecked(d Draft, epoch int64) (Record, bool) {
	switch d.Kind {
	case KindGateOpened, KindIntentClarify:
		b, _ := ReadOpened(d.Kind, d.Body)
		r.gates[b.Gate] = &memGate{key: d.Path, digest: b.Digest}
	case KindGateResolved, KindIntentAccept, KindIntentAnswer:
		b, _ := ReadResolved(d.Kind, d.Body)
		g := r.gates[b.Gate]
		if g != nil && g.decided {
			return Record{}, false
		}
		if g != nil {
			g.decided, g.decision = true, d.Body
		}
	case KindRunCancelRequested:
		rec := r.add(d, epoch)
		r.cancel = &rec
		return rec, true
	case KindRunCorrectionRequested:
		r.correct = true
	case KindRunInterrupted:
		r.leased = false
	case KindRunContinued:
		r.cont, r.segment = r.len(), r.segment+1
		r.correct = false
	case KindIntentAttest:
		r.end(Completed)
	case KindIntentFail:
		r.end(Failed)
	case KindIntentCancel:
		r.end(Cancelled)
	}
	return r.add(d, epoch), true
}

func (r *memRun) end(s Status) { r.ended, r.leased = s, false }

func (r *memRun) add(d Draft, epoch int64) Record {
	rec := Record{Seq: int64(r.len() + 1), Epoch: epoch, At: time.Now().UTC(), Draft: d}
	switch n := len(r.chunks); {
	case n == 0: // it grows: most runs are short
		r.chunks = append(r.chunks, nil)
	case len(r.chunks[n-1]) == chunkSize:
		r.chunks = append(r.chunks, make([]Record, 0, chunkSize))
	}
	last := &r.chunks[len(r.chunks)-1]
	*last = append(*last, rec)
	return rec
}

// tell hands a record to the watchers, under the lock: they see it in order, and
// one that came before the engine sees it before the engine acts on it.
func (r *memRun) tell(rec Record) {
	for _, id := range slices.Sorted(maps.Keys(r.watchers)) { // who came first hears first
		r.watchers[id](rec)
	}
}
