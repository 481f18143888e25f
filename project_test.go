package tipstaff

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// project is a store of runs that are built record by record, for projections to read.
type project struct {
	runs  map[ID]*projectRun
	blobs map[string]string
	now   time.Time
}

type projectRun struct {
	records
	Facts
	failing error // of Get
	broken  error // of Events, at the end
}

func newProject() *project {
	return &project{runs: map[ID]*projectRun{}, blobs: map[string]string{"sha256:p": `{"kind":"plan"}`}, now: dawn.Add(time.Hour)}
}

// add puts a run of these records into the project: the first, unless another id is given.
func (p *project) add(n byte, j records) *projectRun {
	r := &projectRun{records: j, Facts: Facts{ID: testID(n), Name: "notes"}}
	var head journal.Hash
	for i := range r.records {
		e := &r.records[i]
		e.Run = testID(n)
		e.Raw, _ = json.Marshal(e)
		head = head.Next(e.Raw)
	}
	r.Head = head.String()
	p.runs[r.ID] = r
	return r
}

func (p *project) Get(_ context.Context, id ID) (Run, error) {
	r := p.runs[id]
	if r == nil {
		return Run{}, Errorf(RunNotFound, "there is no run %s", id)
	}
	if r.failing != nil {
		return Run{}, r.failing
	}
	fold := r.fold()
	var open []Gate
	for _, e := range r.records {
		if e.Kind.OpensGate() {
			g, err := OpenedGate(e.Kind, e.Path, e.Seq, e.At, e.Body)
			if err != nil {
				return Run{}, err
			}
			if _, is := fold.Gates[g.ID.String()]; is {
				open = append(open, g)
			}
		}
	}
	return Status(r.Facts, fold, open, p.now), nil
}

func (p *project) Events(_ context.Context, req EventsRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range p.runs[req.Run].records {
			if !yield(e, nil) {
				return
			}
		}
		if err := p.runs[req.Run].broken; err != nil {
			yield(Event{}, err)
		}
	}
}

func (p *project) Artifact(_ context.Context, _ ID, digest string) ([]byte, error) {
	if text, ok := p.blobs[digest]; ok {
		return []byte(text), nil
	}
	return nil, Errorf(ArtifactNotFound, "there is no %s", digest)
}

// body is that of a record.
func body(v any) string { return string(flow.JSON(v)) }

// opens is the body of a record that opens a gate with this id.
func opens(n byte, kind GateKind, subject any, actions ...string) string {
	return body(GateOpened{Gate: testID(n).String(), Kind: string(kind), Question: "What now?", Subject: flow.JSON(subject), Actions: actions, Deny: "deny"})
}

func resolves(n byte, action string) string {
	return body(GateResolved{Gate: testID(n).String(), Action: action, Via: "command"})
}
