package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Verify checks a run of the store, or an export: that its bytes are what was
// written and signed (integrity), and that the program, replayed, takes exactly
// these steps within these bounds (conformance).
func (r *Runner) Verify(ctx context.Context, req tipstaff.VerifyRequest) (tipstaff.Report, error) {
	err := may(ctx, basic(tipstaff.ScopeRead))
	if req.Dir == "" {
		err = r.permit(ctx, req.Run, tipstaff.ScopeRead)
	}
	if err == nil { // exports, keys and anchors are files of this machine, and nobody's
		err = may(ctx, need{req.Dir != "" || req.Anchor != "" || len(req.Keys) > 0, tipstaff.ScopeAdmin, "do this"})
	}
	if err != nil {
		return tipstaff.Report{}, err
	}
	opts, err := r.verifying(req)
	if err != nil {
		return tipstaff.Report{}, err
	}
	req.Admins = r.admins(req.Admins)
	if req.Dir != "" {
		return r.verifyFolder(ctx, req, opts)
	}
	t := &trace{}
	var unreadable error // of the first record that cannot be replayed
	res, err := r.integrity(ctx, req.Run, opts, func(raw []byte, rec journal.Record, err error) {
		e, err := tipstaff.EventOf(raw, rec, err)
		if unreadable = cmp.Or(unreadable, err); unreadable == nil {
			_ = t.add(&e) // it keeps whatever it is given
		}
	})
	if err != nil {
		return tipstaff.Report{}, explain(err, req.Run)
	}
	if unreadable == nil {
		unreadable = t.complete(ctx, r.Store)
	}
	return report(ctx, r.Store, res, t, unreadable, req), nil
}

// Integrity is the part of Verify that needs no program: it looks at what is
// stored of a run, byte by byte, and keeps nothing of it.
func (r *Runner) Integrity(ctx context.Context, run tipstaff.ID) (journal.Result, error) {
	opts, err := r.verifying(tipstaff.VerifyRequest{Run: run})
	if err != nil {
		return journal.Result{}, err
	}
	res, err := r.integrity(ctx, run, opts, func([]byte, journal.Record, error) {})
	return res, explain(err, run)
}

func (r *Runner) verifying(req tipstaff.VerifyRequest) (*journal.Options, error) {
	trusted, err := r.trusted(req.Keys)
	if err != nil {
		return nil, err
	}
	opts := &journal.Options{Trusted: trusted, Open: req.Open,
		Kinds: func(kind string) bool { return tipstaff.KnownKind(tipstaff.Kind(kind)) },
		Lifecycle: func(state string, rec journal.Record) string {
			m := tipstaff.Machine{Run: idOf(rec.Run), State: tipstaff.State(state)}
			// An illegal step leaves the state as it is, and so do kinds that drive nothing:
			// conformance names it.
			_ = m.Apply(&tipstaff.Event{Kind: tipstaff.Kind(rec.Kind), Run: m.Run, Body: rec.Body})
			return string(m.State)
		}}
	if req.Anchor != "" {
		if _, err := journal.ReadAnchors(req.Anchor, ""); err != nil {
			return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the anchor file cannot be read: %v", err), Err: err}
		}
		opts.Anchors = func(run string) journal.Anchors { return anchorsOf(req, run) }
	}
	return opts, nil
}

// anchorsOf reads what the request's anchor file says of a run. That it can be read
// was seen before.
func anchorsOf(req tipstaff.VerifyRequest, run string) journal.Anchors {
	anchors, _ := journal.ReadAnchors(req.Anchor, run)
	return anchors
}

// trusted are the keys a verification believes: those given, else the store's.
func (r *Runner) trusted(files []string) ([]journal.PublicKey, error) {
	var keys []journal.PublicKey
	for _, f := range files {
		k, err := journal.ReadPublicKeys(f)
		if err != nil {
			return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the key cannot be read: %v", err), Err: err}
		}
		keys = append(keys, k...)
	}
	if len(files) == 0 && r.Trusted != nil {
		k, err := r.Trusted()
		if err != nil {
			return nil, explain(err, tipstaff.ID{})
		}
		keys = k
	}
	if len(keys) == 0 {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no key to verify with").
			WithCommand("name the public key of whoever ran it: --key FILE.pub")
	}
	return keys, nil
}

// integrity gives each every record that it has checked, as [journal.Parse] took it.
func (r *Runner) integrity(ctx context.Context, id tipstaff.ID, opts *journal.Options, each func([]byte, journal.Record, error)) (journal.Result, error) {
	row, err := r.Store.Run(ctx, id.String())
	if err != nil {
		return journal.Result{}, err
	}
	run := row.ID
	opts.Run, opts.State = run, row.State
	remembered := journal.Head{Seq: row.FoldSeq, Of: "the run row"}
	remembered.Hash, _ = journal.ParseHash(row.FoldHash)
	if tipstaff.State(row.State).Terminal() {
		opts.Heads = []journal.Head{remembered} // where it must end
	}
	met := remembered.Seq == 0
	var (
		down      error // what cannot be asked for is not missing
		envelopes [][]byte
		gates     []flow.Stored // that open and close them
	)
	opts.Blob = func(h journal.Hash) ([]byte, error) {
		if down != nil {
			return nil, down
		}
		data, err := r.Store.Blob(ctx, h.String())
		if errors.Is(err, flow.ErrStoreDown) {
			down = err
		}
		return data, err
	}
	v := journal.NewVerifier(opts)
	err = eachRecord(ctx, r.Store, run, 0, func(s flow.Stored) error {
		h := journal.Hash(s.Hash)
		rec, err := v.Add(s.Bytes, &h)
		met = met || s.Seq == remembered.Seq && h == remembered.Hash
		if journal.IsEnvelope(rec.Kind) {
			envelopes = append(envelopes, s.Bytes)
		}
		if kind := tipstaff.Kind(rec.Kind); kind.OpensGate() || kind.ClosesGate() {
			gates = append(gates, s)
		}
		each(s.Bytes, rec, err)
		return nil
	})
	if err != nil {
		return journal.Result{}, err
	}
	res := v.Close()
	if down != nil {
		return journal.Result{}, down
	}
	if !met && len(opts.Heads) == 0 {
		add(&res, journal.Fault{Seq: remembered.Seq, Code: journal.ErrTruncated,
			Message: fmt.Sprintf("the run row remembers record %d with the hash %s", remembered.Seq, remembered.Hash)})
	}
	if r.Files == "" {
		return res, nil
	}
	faults, err := journal.VerifyFiles(filepath.Join(r.Files, run), func(yield func([]byte, error) bool) {
		for _, b := range envelopes {
			if !yield(b, nil) {
				return
			}
		}
	})
	for _, f := range faults {
		add(&res, f)
	}
	if err == nil && res.Total == 0 { // else what is stored is no measure
		err = r.verifyDecisions(ctx, run, gates, &res)
	}
	return res, err
}

// verifyDecisions compares the files of decisions that are there with what the records say.
func (r *Runner) verifyDecisions(ctx context.Context, run string, gates []flow.Stored, res *journal.Result) error {
	opened := map[string]tipstaff.Gate{}
	for _, s := range gates {
		e, err := parse(ctx, r.Store, s)
		if err != nil {
			return err
		}
		if e.Kind.OpensGate() {
			g, err := tipstaff.OpenedGate(e.Kind, e.Path, e.Seq, e.At, e.Body)
			if err == nil {
				opened[g.ID.String()] = g
			}
			continue
		}
		b, err := flow.ReadResolved(string(e.Kind), e.Body)
		if err != nil || b.Gate == "" || !b.Decision() {
			continue // nobody decided it
		}
		name := filepath.Join("decisions", b.Gate+".json")
		text, missing := os.ReadFile(filepath.Join(r.runFolder(run), name))
		if missing != nil {
			continue
		}
		if _, stored, err := decisionIn(opened[b.Gate], &e); err != nil || !bytes.Equal(text, stored) {
			add(res, journal.Fault{Seq: e.Seq, File: name, Code: journal.ErrProjectionMismatch, Message: "the file of a decision differs from the decision"})
		}
	}
	return nil
}

// runFolder is the folder of a run's files.
func (r *Runner) runFolder(run string) string {
	return filepath.Join(r.Folder, "runs", run)
}

func add(res *journal.Result, f journal.Fault) {
	res.Total++
	if len(res.Faults) < journal.MaxFaults {
		res.Faults = append(res.Faults, f)
	}
}

// maxBroken is how many bytes of records are replayed of an export that does not hold.
// Whoever made it could make it as large as they like; one that holds was signed.
const (
	maxBroken  = 64 << 20
	recordCost = 128 // of each, beside its bytes
)

func (r *Runner) verifyFolder(ctx context.Context, req tipstaff.VerifyRequest, opts *journal.Options) (tipstaff.Report, error) {
	opts.Stopped = ctx.Err
	res, err := journal.VerifyExport(req.Dir, opts)
	if ctx.Err() != nil {
		return tipstaff.Report{}, ctx.Err()
	}
	if err != nil {
		return tipstaff.Report{}, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("%s cannot be read as an export: %v", req.Dir, err), Err: err}
	}
	f, err := journal.OpenExport(req.Dir)
	if err != nil {
		return report(ctx, nil, res, nil, err, req), nil
	}
	src := &folder{Folder: f, by: r.performers, read: map[string][]flow.Stored{}, room: math.MaxInt64}
	if !res.OK() {
		src.room = maxBroken
	}
	t, err := readTrace(ctx, src, res.Run, 0)
	return report(ctx, src, res, t, err, req), nil
}

// folder reads an export as a source. A file is read once: pages of it are asked
// for several times.
type folder struct {
	*journal.Folder
	by   performers
	mu   sync.Mutex
	read map[string][]flow.Stored // by run
	room int64                    // for bytes of records that are read
}

func (f *folder) Records(ctx context.Context, run string, after int64, limit int) ([]flow.Stored, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, ok := f.read[run]
	if !ok {
		records := f.Folder.Records()
		if run != f.Run {
			records = f.Base(run)
		}
		for b, err := range records {
			if err := cmp.Or(err, ctx.Err()); err != nil {
				return nil, err
			}
			if f.room -= int64(len(b)) + recordCost; f.room < 0 {
				return nil, fmt.Errorf("the records are not whole, and more than %d bytes: they are not replayed", maxBroken)
			}
			all = append(all, flow.Stored{Seq: int64(len(all) + 1), Bytes: bytes.Clone(b)})
		}
		f.read[run] = all
	}
	from := min(after, int64(len(all)))
	return all[from:min(from+int64(limit), int64(len(all)))], nil
}

func (f *folder) performers() performers { return f.by }

func (f *folder) Blob(_ context.Context, digest string) ([]byte, error) {
	h, err := journal.ParseHash(digest)
	if err != nil {
		return nil, err
	}
	return f.Folder.Blob(h)
}

func reportOf(res journal.Result) tipstaff.Report {
	rep := tipstaff.Report{Run: idOf(res.Run), Seq: res.Seq, Head: res.Head.String(), Envelopes: res.Envelopes, State: tipstaff.State(res.State)}
	rep.Integrity = tipstaff.Finding{OK: res.OK(), Total: res.Total, Problems: []tipstaff.Problem{}}
	for _, f := range res.Faults {
		rep.Integrity.Problems = append(rep.Integrity.Problems, tipstaff.Problem{Code: string(f.Code), Seq: f.Seq, File: f.File, Message: f.Message})
	}
	return rep
}

func unreadable(err error) tipstaff.Finding {
	return tipstaff.Finding{Total: 1, Problems: []tipstaff.Problem{{Code: "unreadable", Message: "what is recorded cannot be replayed: " + err.Error()}}}
}

// report judges a run whose records could be read, or says why not.
func report(ctx context.Context, src source, res journal.Result, t *trace, err error, req tipstaff.VerifyRequest) tipstaff.Report {
	rep := reportOf(res)
	if err != nil {
		rep.Conformance = unreadable(err)
		return rep
	}
	rep.Lifecycle = tipstaff.Lifecycle(t.events)
	p, err := openProgram(ctx, src, res.Run)
	if err != nil {
		rep.Conformance = unreadable(err)
		return rep
	}
	if req.Anchor != "" && p.shared().text.intent().Anchor {
		t.checkAnchored(&rep, anchorsOf(req, res.Run))
	}
	j := &judge{ctx: ctx, src: src, program: p, draft: &p.shared().draft, trace: t, admins: req.Admins}
	var each func(tipstaff.Event)
	if req.Replay {
		each = func(e tipstaff.Event) { rep.Replayed = append(rep.Replayed, e) }
	}
	rep.Outcome = j.all(each)
	rep.Conformance = tipstaff.Finding{OK: len(j.problems) == 0, Total: len(j.problems), Problems: j.problems[:min(len(j.problems), journal.MaxFaults)]}
	if rep.Conformance.Problems == nil {
		rep.Conformance.Problems = []tipstaff.Problem{}
	}
	return rep
}

// checkAnchored reports a run that is to be anchored and whose last rest is not.
func (t *trace) checkAnchored(rep *tipstaff.Report, anchors journal.Anchors) {
	last := int64(0)
	for i := range t.events {
		switch e := &t.events[i]; {
		case e.Kind == tipstaff.KindPlanProposed:
			last = 0 // the plan that asks for it may be in force from here on only
		case e.Kind == tipstaff.KindRunParked, e.Kind == tipstaff.KindRunInterrupted, e.Kind.Terminal():
			last = e.Seq
		}
	}
	if last == 0 || len(anchors[last]) > 0 {
		return
	}
	rep.Integrity.Note(tipstaff.Problem{Code: string(journal.ErrUnanchored), Seq: last,
		Message: "the plan asks for an anchor, and the anchor file does not name this record"})
}

// Export writes a run to a folder that anybody can verify: records by Events,
// documents by Artifact.
func Export(ctx context.Context, svc tipstaff.Service, run tipstaff.ID, dir string) error {
	err := journal.Export(dir, journal.Source{
		Run: run.String(),
		Records: func(run string, upTo int64) iter.Seq2[[]byte, error] {
			return func(yield func([]byte, error) bool) {
				for e, err := range svc.Events(ctx, tipstaff.EventsRequest{Run: idOf(run), Limit: int(upTo)}) {
					if !yield(e.Raw, err) || err != nil {
						return
					}
				}
			}
		},
		Blob: func(h journal.Hash) ([]byte, error) { return svc.Artifact(ctx, run, h.String()) },
	})
	if err != nil && tipstaff.CodeOf(err) == tipstaff.Internal {
		return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("the run could not be exported: %v", err), Err: err}
	}
	return err
}

// sameJSON compares documents, not bytes.
func sameJSON(a, b json.RawMessage) bool { return bytes.Equal(canonical(a), canonical(b)) }
