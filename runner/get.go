package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/workspace"
)

// Get is one run with its gates and bounds.
func (r *Runner) Get(ctx context.Context, run tipstaff.ID) (tipstaff.Run, error) {
	if err := r.permit(ctx, run, tipstaff.ScopeRead); err != nil {
		return tipstaff.Run{}, err
	}
	return r.get(ctx, run)
}

func (r *Runner) get(ctx context.Context, run tipstaff.ID) (tipstaff.Run, error) {
	row, err := r.Store.Run(ctx, run.String())
	if err != nil {
		return tipstaff.Run{}, explain(err, run)
	}
	got, err := r.status(ctx, row)
	// Whoever drove it lives no more. Before it ended it may have gone on from what the row says.
	for err == nil && got.Condition != tipstaff.Running && (row.Owner != nil || row.Launch != nil) {
		was := row
		if row, err = r.Store.Run(ctx, run.String()); err != nil || row.Head == was.Head && row.Epoch == was.Epoch && (row.Owner == nil) == (was.Owner == nil) {
			break
		}
		got, err = r.status(ctx, row)
	}
	if err != nil {
		return tipstaff.Run{}, explain(err, run)
	}
	for i := range got.OpenGates {
		r.showNow(ctx, row.ID, &got.OpenGates[i], tipstaff.Subject)
	}
	r.documents(ctx, &got)
	if got.Queued != nil && r.Pool != nil && !r.pooled() { // a server has looked at what waits
		if p, err := openProgram(ctx, r.Store, row.ID); err == nil {
			got.Queued.Lacks = r.lacks(p.shared())
		}
	}
	return got, nil
}

// status derives what surfaces show from the row, the fold kept in it and the
// records since.
func (r *Runner) status(ctx context.Context, row flow.Row) (tipstaff.Run, error) {
	fold, head, err := r.foldAt(ctx, row)
	if err != nil {
		return tipstaff.Run{}, err
	}
	gates, err := r.openGates(ctx, row.ID, fold)
	if err != nil {
		return tipstaff.Run{}, err
	}
	var program programText
	if text, err := r.Store.Blob(ctx, cmp.Or(fold.Program.Digest, row.Program)); err == nil { // what cannot be read has no name
		_ = json.Unmarshal(text, &program) // and a plan need not have one
	}
	facts, err := r.facts(ctx, row, fold)
	if err != nil {
		return tipstaff.Run{}, err
	}
	facts.Name, facts.Steps, facts.Head = program.Name, program.steps(), head
	facts.Woken = r.due(row) && !row.WakeAt.Equal(fold.WakeAt)
	if row.Origin == tipstaff.OriginSupervisor || row.Origin == tipstaff.OriginEngine { // of others that makes no difference
		draft, err := readDraft(ctx, r.Store, row.ID)
		if err != nil {
			return tipstaff.Run{}, err
		}
		facts.Foreign = draft.Keys != (tipstaff.RunKeys{}) && draft.Keys.Executor != r.Keys.Executor
	}
	run := tipstaff.Status(facts, fold, gates, r.Now())
	// An MCP client of the daemon has its runs driven by the daemon itself.
	if run.ControlReason == tipstaff.DaemonRun && run.Origin == r.Origin && tipstaff.CallerFrom(ctx).Surface == "mcp" {
		run.Control, run.ControlReason = tipstaff.Controllable, ""
	}
	run.Dir, run.Project, run.Host = r.RunDir(row.ID), row.Project, row.Host
	if row.Session != "" {
		run.Turn = r.turnStatus(ctx, row, program.Agent, program.Message)
	}
	return run, nil
}

// facts are what is known of a run beyond its records and its program.
func (r *Runner) facts(ctx context.Context, row flow.Row, fold *tipstaff.Fold) (f tipstaff.Facts, err error) {
	f = tipstaff.Facts{ID: idOf(row.ID), State: tipstaff.State(row.State), Launched: row.Launch != nil}
	if f.Queued, err = r.queued(ctx, row, fold); err != nil {
		return f, err
	}
	if o := row.Owner; o != nil {
		f.Owner = &tipstaff.Owner{Kind: o.Kind, Pid: o.Pid, HeartbeatAt: row.Heartbeat, Alive: r.alive(row)}
	}
	// It takes the lease in a moment.
	f.Launching = row.Epoch == 0 && f.Queued == nil && r.driving(row.ID) || r.pendingLaunch(row)
	return f, nil
}

// standing is what a run does and what it has used, without what its gates ask and what its
// program is called: enough to count it.
func (r *Runner) standing(ctx context.Context, row flow.Row) (tipstaff.Run, error) {
	fold, _, err := r.foldAt(ctx, row)
	if err != nil {
		return tipstaff.Run{}, err
	}
	facts, err := r.facts(ctx, row, fold)
	if err != nil {
		return tipstaff.Run{}, err
	}
	var gates []tipstaff.Gate
	if len(fold.Gates) > 0 {
		kinds, err := r.Store.CountGates(ctx, flow.GateQuery{Run: row.ID, Open: true})
		if err != nil {
			return tipstaff.Run{}, err
		}
		for kind := range kinds {
			gates = append(gates, tipstaff.Gate{Kind: tipstaff.GateKind(kind)})
		}
	}
	return tipstaff.Status(facts, fold, gates, r.Now()), nil
}

// programText is what a list tells of a program.
type programText struct {
	Name, Agent, Message string
	Root                 *planNode
	Agents               []struct{} // of a pipeline: its stages
}

type planNode struct{ Children []planNode }

// steps is how many leaves a plan has, or how many stages a pipeline.
func (t *programText) steps() int {
	if t.Root == nil {
		return len(t.Agents)
	}
	return t.Root.leaves()
}

func (n *planNode) leaves() (all int) {
	for i := range n.Children {
		all += n.Children[i].leaves()
	}
	return max(1, all)
}

// turnStatus is where a turn stands: its session, and what the run has frozen of its agent
// and of the conversation before it. What cannot be read is left out.
func (r *Runner) turnStatus(ctx context.Context, row flow.Row, agent, message string) *tipstaff.TurnStatus {
	t := &tipstaff.TurnStatus{Session: row.Session, Number: row.Turn, Agent: cmp.Or(agent, workspace.DefaultAgent), Opening: opening(message)}
	e, err := eventAt(ctx, r.Store, row.ID, 1)
	if err != nil {
		return t
	}
	frozen := tipstaff.BodyOf[tipstaff.IntentDraft](e).Frozen
	read := func(name string, into any) {
		if text, err := r.Store.Blob(ctx, frozen[name]); err == nil {
			_ = json.Unmarshal(text, into)
		}
	}
	var settled map[string]settledAgent
	read(frozenAgents, &settled)
	t.Model = settled[t.Agent].Settings.ModelName
	var first struct{ Text string }
	if read(tipstaff.FrozenMessage+"000001", &first); first.Text != "" {
		t.Opening = opening(first.Text)
	}
	return t
}

// maxOpening is how much of a conversation's first message lists show.
const maxOpening = 80

// opening is how a message begins, in one line.
func opening(message string) string {
	words := strings.Join(strings.Fields(message[:min(len(message), 8*maxOpening)]), " ")
	if short := []rune(strings.ToValidUTF8(words, "")); len(short) > maxOpening {
		return string(short[:maxOpening-1]) + "…"
	}
	return strings.ToValidUTF8(words, "")
}

// foldAt is the fold of all that a run has recorded, and the hash of its last record:
// what is kept in the row, and the records since.
func (r *Runner) foldAt(ctx context.Context, row flow.Row) (fold *tipstaff.Fold, head string, err error) {
	fold, head = tipstaff.ReadFold(row.Fold), row.HeadHash
	if fold.Seq == row.Head {
		return fold, head, nil
	}
	err = eachRecord(ctx, r.Store, row.ID, fold.Seq, func(s flow.Stored) error {
		if s.Seq > row.Head { // it came later, and the row does not know who owns the run since
			return errEnough
		}
		e, err := tipstaff.ParseEvent(s.Bytes)
		if err != nil {
			return err
		}
		fold.Apply(&e)
		head = journal.Hash(s.Hash).String()
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return fold, head, err
}

// openGates are those of a run. The fold counts as open all that are, and besides
// those that the end of the run has closed.
func (r *Runner) openGates(ctx context.Context, run string, fold *tipstaff.Fold) ([]tipstaff.Gate, error) {
	if len(fold.Gates) == 0 {
		return []tipstaff.Gate{}, nil
	}
	rows, err := r.Store.Gates(ctx, flow.GateQuery{Run: run, Open: true})
	gates := make([]tipstaff.Gate, len(rows))
	for i, g := range rows {
		if gates[i], err = r.shownGate(ctx, g, fold, tipstaff.Subject); err != nil {
			return nil, err
		}
	}
	return gates, err
}

// maxHeard is how many records before its gate are looked at for what a worker has said.
const maxHeard = 5000

// lastHeard is what was last heard of whoever made a call, before record until; nil: it has
// told nothing.
func (r *Runner) lastHeard(ctx context.Context, run, path string, until int64) (*tipstaff.LastHeard, error) {
	records, err := r.Store.Records(ctx, run, max(0, until-maxHeard), maxHeard)
	if err != nil {
		return nil, err
	}
	var heard *tipstaff.LastHeard
	for _, s := range records {
		if s.Seq >= until || !bytes.Contains(s.Bytes, []byte(path)) { // most are others'
			continue
		}
		e, err := parse(ctx, r.Store, s)
		if err != nil {
			return nil, err
		}
		switch {
		case e.Path != path:
		case e.Kind == tipstaff.KindWorkerStarted:
			heard = new(tipstaff.LastHeard)
		case heard == nil:
		case e.Kind == tipstaff.KindDiffRecorded:
			heard.Changed = nil
			for _, c := range r.changedFiles(ctx, tipstaff.BodyOf[tipstaff.DiffRecorded](&e).List) {
				heard.Changed = append(heard.Changed, c.Path)
			}
		default:
			heard.Hear(&e)
		}
	}
	return heard, nil
}

// maxChanged is how many files a gate names that have changed.
const maxChanged = 50

// changedFiles are the first in a list of changes. What cannot be read is left out.
func (r *Runner) changedFiles(ctx context.Context, list string) (changes []tipstaff.FileChange) {
	if text, err := r.Store.Blob(ctx, list); err == nil {
		_ = json.Unmarshal(text, &changes)
	}
	return changes[:min(len(changes), maxChanged)]
}

// alive reports whether somebody drives a run. A server that watches the leases of others
// goes by what it has seen: how old a heartbeat is says nothing after the database was away.
func (r *Runner) alive(row flow.Row) bool {
	if row.Owner != nil && r.pooled() {
		return r.lives(flow.Hold{Run: row.ID, Holder: row.Holder, Owner: *row.Owner})
	}
	return row.Owner != nil && r.Alive(*row.Owner, row.Heartbeat, r.Now())
}

// documents adds what is not in the fold: inputs, the outputs of a run that completed, and
// where its line began.
func (r *Runner) documents(ctx context.Context, run *tipstaff.Run) {
	for at := run.Lineage; at != nil && !at.Parent.IsZero(); {
		run.Lineage.Root = at.Parent
		row, err := r.Store.Run(ctx, at.Parent.String())
		if err != nil {
			break // what is gone was the first that is known
		}
		at = tipstaff.ReadFold(row.Fold).Lineage
	}
	if e, err := eventAt(ctx, r.Store, run.ID.String(), 1); err == nil {
		draft := tipstaff.BodyOf[tipstaff.IntentDraft](e)
		run.Labels = draft.Labels
		if raw, err := attached(ctx, r.Store, draft.Inputs); err == nil {
			_ = json.Unmarshal(raw, &run.Inputs)
		}
	}
	if run.State != tipstaff.Completed {
		return
	}
	if e, err := eventAt(ctx, r.Store, run.ID.String(), run.HeadSeq); err == nil {
		if out, err := r.Store.Blob(ctx, tipstaff.BodyOf[tipstaff.IntentAttest](e).OutputsDigest); err == nil {
			run.Outputs = out
		}
	}
}

// gateOf is a stored gate in the words of surfaces.
func gateOf(row flow.GateRow) tipstaff.Gate {
	kind := tipstaff.KindPolicyGate
	var b tipstaff.GateOpened
	if _ = json.Unmarshal(row.Body, &b); b.Kind == "" { // it asks before there is a program
		kind = tipstaff.KindIntentClarify
	}
	g, _ := tipstaff.OpenedGate(kind, row.Key, row.Opened, row.OpenedAt, row.Body) // the store has read it before
	return g
}

// Artifact is a stored document or payload by its digest. Knowing a digest does not make
// its content one's own: a caller that does not see all is given what a record of the
// run names, or of those that it inherits from.
func (r *Runner) Artifact(ctx context.Context, run tipstaff.ID, digest string) ([]byte, error) {
	row, err := r.open(ctx, run, tipstaff.ScopeRead)
	if err != nil {
		return nil, err
	}
	if _, err := journal.ParseHash(digest); err != nil {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a digest", digest)
	}
	// Who has all the files of the store at hand need not go by a run that refers to one.
	for kept := tipstaff.CallerFrom(ctx).Trusted(); !kept; {
		if kept, err = r.Store.Keeps(ctx, row.ID, digest); !kept && err == nil {
			if row.Base == "" {
				return nil, tipstaff.Errorf(tipstaff.ArtifactNotFound, "run %s has no artifact %s", run, digest)
			}
			row, err = r.Store.Run(ctx, row.Base)
		}
		if err != nil {
			return nil, explain(err, run)
		}
	}
	data, err := r.Store.Blob(ctx, digest)
	return data, explain(err, run)
}

// Checkpoints lists those of a run.
func (r *Runner) Checkpoints(ctx context.Context, run tipstaff.ID) ([]tipstaff.Checkpoint, error) {
	if err := r.permit(ctx, run, tipstaff.ScopeRead); err != nil {
		return nil, err
	}
	return tipstaff.CheckpointsOf(localUser(ctx), r, run) // also of what it inherits from another's run
}

// Events yields records after a cursor.
func (r *Runner) Events(ctx context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		if err := r.follow(ctx, req, yield); err != nil && err != errEnough {
			yield(tipstaff.Event{}, explain(err, req.Run))
		}
	}
}

var errEnough = tipstaff.Errorf(tipstaff.Internal, "the reader has enough")

func (r *Runner) follow(ctx context.Context, req tipstaff.EventsRequest, yield func(tipstaff.Event, error) bool) error {
	row, err := r.open(ctx, req.Run, tipstaff.ScopeRead)
	if err != nil {
		return err
	}
	run := row.ID
	if req.After > row.Head {
		return tipstaff.Errorf(tipstaff.CursorBeyondHead, "run %s has %d records: there is none after %d", run, row.Head, req.After)
	}
	// The signal is there before the store is read, so nothing falls between.
	changed, stop := r.Store.Follow(run)
	defer stop()
	live := &subscription{} // to nothing, unless the run is followed
	if req.Follow {
		var unsubscribe func()
		live.events, unsubscribe = r.transient.subscribe(run)
		defer unsubscribe()
	}
	after, left := req.After, req.Limit
	give := func(s flow.Stored) error {
		e, err := tipstaff.ParseEvent(s.Bytes)
		if err != nil {
			return err
		}
		e.Hash = s.Hash
		// What a call told was told before its end was written: it is here by now.
		if endsCalls(e.Kind) && !live.ended(e.Path, yield) {
			return errEnough
		}
		after = s.Seq
		if !yield(e, nil) {
			return errEnough
		}
		if left--; left == 0 {
			return errEnough
		}
		return nil
	}
	for {
		over, rested := !req.Follow, r.rested(run)
		if !over && rested == nil {
			// Asked before reading: whatever was written until then is still read. Nothing
			// more happens by itself in a run that has ended, or that nobody drives.
			if row, err = r.Store.Run(ctx, run); err != nil {
				return err
			}
			over = tipstaff.State(row.State).Terminal() || !req.Stay && !r.held(row)
		}
		live.reading()
		if err := eachRecord(ctx, r.Store, run, after, give); err != nil || over {
			return err
		}
		if !live.read(yield) {
			return errEnough
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-live.events: // what it belongs to was written before, and is read first
			live.held = append(live.held, heldEvent{Event: e})
		case <-changed:
		case <-rested:
		case <-time.After(time.Second):
		}
	}
}

// rested is closed when the drive of a run in this process is over; nil: there is none.
func (r *Runner) rested(run string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.drives[run]; a != nil {
		return a.done
	}
	return nil
}

// parse reads a stored record with its payloads attached.
func parse(ctx context.Context, src source, s flow.Stored) (tipstaff.Event, error) {
	e, err := tipstaff.ParseEvent(s.Bytes)
	if err != nil {
		return e, err
	}
	return e, attach(ctx, src, &e)
}

// attach puts the payloads into a record that names them by digest.
func attach(ctx context.Context, src source, e *tipstaff.Event) error {
	body, err := journal.Attach(string(e.Kind), e.Note, e.Body, func(h journal.Hash) ([]byte, error) { return src.Blob(ctx, h.String()) })
	if err == nil {
		e.Body = body
	}
	return err
}
