package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// trial is one of the three runs while it is made.
type trial struct {
	product *Product
	local   *loopback
	folders
	session Session
	svc     tipstaff.Service

	e     *evidence
	began calls // before the run
}

// counted are the calls that servers have counted so far, whoever made them.
func (t *trial) counted() (calls, error) {
	all, err := countedFiles(filepath.Dir(t.files))
	maps.Copy(all, t.local.calls())
	return all, err
}

// run takes the run from the wish to its end, and notes what it sees on the way.
func (t *trial) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{t.pin, t.seed, t.draft, t.accept, t.correct, t.end} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pin locks what the servers list, and then asks them again.
func (t *trial) pin(ctx context.Context) error {
	box, err := t.product.Tools(t.workspace)
	if err != nil {
		return err
	}
	report, err := box.Compare(ctx, nil)
	if err != nil {
		return err
	}
	if report.Failed() {
		return fmt.Errorf("the servers cannot be locked: %s", text(report.Findings))
	}
	if err := box.Pin(ctx, report); err != nil {
		return err
	}
	if t.e.Locked, err = t.readLock(ctx, box); err != nil {
		return err
	}
	live, _, err := box.Live(ctx, nil)
	t.e.Listed = map[string]listing{}
	for _, tool := range live {
		if tool.Lock == tipstaff.ToolUndeclared {
			if tool.Server != "builtin" { // which has more tools than the runs use
				add(t.e.Listed, tool.Server, tool.Version, tool.Tool, nil)
			}
			continue
		}
		described, err := box.Describe(ctx, tool.Name(), true)
		if err != nil {
			return err
		}
		add(t.e.Listed, tool.Server, described.Version, tool.Tool, described.Definition)
	}
	return err
}

func add(to map[string]listing, server, version, tool string, definition json.RawMessage) {
	if _, ok := to[server]; !ok {
		to[server] = listing{Version: version, Tools: map[string]json.RawMessage{}}
	}
	to[server].Tools[tool] = definition
}

// readLock reads the file; what the binary itself locks, builtin, is told by the product.
func (t *trial) readLock(ctx context.Context, box tipstaff.Tools) (map[string]listing, error) {
	b, err := os.ReadFile(filepath.Join(t.workspace, "tipstaff.lock"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Servers map[string]struct {
			Version string
			Tools   map[string]struct{ Definition json.RawMessage }
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	locked := map[string]listing{}
	for server, l := range file.Servers {
		for tool, d := range l.Tools {
			add(locked, server, l.Version, tool, d.Definition)
		}
	}
	own, err := box.Describe(ctx, "builtin/http_get", false)
	add(locked, "builtin", own.Version, own.Tool, own.Definition)
	return locked, err
}

// seed remembers three items in an empty memory.
func (t *trial) seed(ctx context.Context) (err error) {
	for i, importance := range seeds {
		if _, err := t.session.Memory().Remember(ctx, tipstaff.RememberRequest{Type: "fact", Text: fmt.Sprintf("Fact %d about releases.", i+1), Importance: importance}); err != nil {
			return err
		}
	}
	t.e.Seeded, err = t.memory(ctx)
	return errors.Join(err, t.items(ctx, &t.e.Before))
}

func (t *trial) memory(ctx context.Context) (m memoryLog, err error) {
	for r, err := range t.session.Memory().Log(ctx, 0) {
		if err != nil {
			return m, err
		}
		m.Records = append(m.Records, r.Raw)
	}
	report, err := t.session.Memory().Rebuild(ctx, true)
	m.Seq, m.Head = report.Seq, report.Head
	return m, err
}

// items notes how the seeded items stand.
func (t *trial) items(ctx context.Context, found *map[string]tipstaff.MemoryItem) error {
	items, err := t.session.Memory().Items(ctx, tipstaff.MemoryQuery{Type: "fact"})
	*found = map[string]tipstaff.MemoryItem{}
	for _, item := range items {
		(*found)[item.Item] = item
	}
	return err
}

// draft has the plan drafted: the model asks, is answered, and drafts.
func (t *trial) draft(ctx context.Context) (err error) {
	if t.began, err = t.counted(); err != nil {
		return err
	}
	started, err := t.svc.Draft(ctx, tipstaff.DraftRequest{Prose: wish})
	if err != nil {
		return err
	}
	t.e.Run = started.Run
	if err := t.rests(ctx, restAsked, tipstaff.Clarifying); err != nil {
		return err
	}
	return t.goOn(ctx, tipstaff.DecideRequest{Action: "answer", Answer: json.RawMessage(text(object{question: answer}))}, restDrafted, tipstaff.Proposed)
}

// rests waits until nobody drives the run and notes how it is found. A run that is in
// another state than the harness can go on from has failed.
func (t *trial) rests(ctx context.Context, place string, want tipstaff.State) error {
	driven, err := t.svc.Wait(ctx, t.e.Run)
	if err != nil {
		return err
	}
	if driven.Err != nil {
		return driven.Err
	}
	run, err := t.svc.Get(ctx, t.e.Run)
	if err != nil {
		return err
	}
	now, err := t.counted()
	if err != nil {
		return err
	}
	r := rest{State: run.State, Calls: now.since(t.began), Asked: len(t.e.Asked)}
	for _, g := range run.OpenGates {
		r.Gates = append(r.Gates, g.Kind)
	}
	t.e.Rests[place] = r
	if run.State != want {
		return fmt.Errorf("the run is %s where it should be %s: %s", run.State, want, tipstaff.Joined(": ", driven.Reason, driven.Code, driven.Message))
	}
	return nil
}

// goOn answers the one gate that is open, and drives the run on.
func (t *trial) goOn(ctx context.Context, d tipstaff.DecideRequest, place string, want tipstaff.State) error {
	run, err := t.svc.Get(ctx, t.e.Run)
	if err != nil {
		return err
	}
	if len(run.OpenGates) != 1 {
		return fmt.Errorf("the run has %d open gates where it should have one", len(run.OpenGates))
	}
	d.Run, d.Gate = t.e.Run, run.OpenGates[0].ID.String()
	if _, err := t.svc.Decide(ctx, d); err != nil {
		return err
	}
	return t.resume(ctx, place, want)
}

func (t *trial) resume(ctx context.Context, place string, want tipstaff.State) error {
	if _, err := t.svc.Resume(ctx, tipstaff.ResumeRequest{Run: t.e.Run}); err != nil {
		return err
	}
	return t.rests(ctx, place, want)
}

func (t *trial) accept(ctx context.Context) error {
	return t.goOn(ctx, tipstaff.DecideRequest{Action: "accept"}, restGate, tipstaff.Executing)
}

// correct hands in both corrections while the run is at its gate, and accepts the second.
func (t *trial) correct(ctx context.Context) error {
	run, err := t.svc.Get(ctx, t.e.Run)
	if err != nil {
		return err
	}
	program, err := t.svc.Artifact(ctx, t.e.Run, run.Program.Digest)
	if err != nil {
		return err
	}
	gentle, harsh, err := corrections(program)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		program []byte
		place   string
		want    tipstaff.State
	}{{gentle, restCorrected, tipstaff.Executing}, {harsh, restMaterial, tipstaff.Accepted}} {
		if _, err := t.svc.Correct(ctx, tipstaff.CorrectRequest{Run: t.e.Run, Program: c.program, Name: c.place + ".json", Reason: c.place}); err != nil {
			return err
		}
		if err := t.resume(ctx, c.place, c.want); err != nil {
			return err
		}
	}
	return t.goOn(ctx, tipstaff.DecideRequest{Action: "accept"}, "accepted again", tipstaff.Executing)
}

// end approves, and collects what the run has left behind.
func (t *trial) end(ctx context.Context) error {
	if err := t.goOn(ctx, tipstaff.DecideRequest{Action: "approve"}, restEnd, tipstaff.Completed); err != nil {
		return err
	}
	e := t.e
	run, err := t.svc.Get(ctx, e.Run)
	if err != nil {
		return err
	}
	e.Lifecycle, e.Calls = run.Lifecycle, e.Rests[restEnd].Calls
	for record, err := range t.svc.Events(ctx, tipstaff.EventsRequest{Run: e.Run}) {
		if err != nil {
			return err
		}
		e.Records = append(e.Records, record)
	}
	e.Programs = map[string][]byte{}
	for _, proposed := range e.of(tipstaff.KindPlanProposed) {
		digest := tipstaff.BodyOf[tipstaff.PlanProposed](proposed).ProgramDigest
		if e.Programs[digest], err = t.svc.Artifact(ctx, e.Run, digest); err != nil {
			return err
		}
	}
	w, err := t.session.Memory().Weights(ctx)
	if err != nil {
		return err
	}
	e.Weights = [5]int64{int64(w.R), int64(w.A), int64(w.C), int64(w.D), int64(w.V)}
	if e.Memory, err = t.memory(ctx); err != nil {
		return err
	}
	return errors.Join(t.items(ctx, &e.After), t.keys())
}

func (t *trial) keys() error {
	for name, key := range map[string]*journal.PublicKey{"user.pub": &t.e.User, "executor.pub": &t.e.Executor} {
		found, err := journal.ReadPublicKeys(filepath.Join(t.workspace, ".tipstaff", "keys", name))
		if err != nil {
			return err
		}
		*key = found[0]
	}
	return nil
}

// readFiles reads the files of the skill and of the run, which follow the store: they are
// all there when that is closed.
func (t *trial) readFiles() (err error) {
	if t.e.Skill, err = readFolder(filepath.Join(t.workspace, "skills", "announce")); err != nil {
		return err
	}
	t.e.Folder = filepath.Join(t.workspace, ".tipstaff", "journal", t.e.Run.String())
	t.e.Files, err = readFolder(t.e.Folder)
	return err
}

func readFolder(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// prove exports the run, replays it and verifies it, whole and with one bit changed. By
// then no server can be reached.
func (t *trial) prove(ctx context.Context) error {
	before, err := t.counted()
	if err != nil {
		return err
	}
	command := func(args ...string) (int, []byte) {
		return t.product.Command(ctx, append(args, "--workspace", t.workspace)...)
	}
	if code, out := command("export", t.e.Run.String(), t.export); code != 0 {
		return fmt.Errorf("export has failed with exit code %d: %s", code, out)
	}
	code, out := command("replay", t.export, "--json")
	t.e.Replay = replay{Code: code}
	for line := range bytes.Lines(out) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var report struct{ Outcome string }
		if json.Unmarshal(line, &report) == nil && report.Outcome != "" {
			t.e.Replay.Outcome = report.Outcome
			continue
		}
		t.e.Replay.Records = append(t.e.Replay.Records, line)
	}
	t.e.Verified, _ = command("verify", t.export)
	if err := flip(t.export, t.flipped); err != nil {
		return err
	}
	t.e.Flipped, _ = command("verify", t.flipped)
	after, err := t.counted()
	t.e.Replay.Calls = after.since(before)
	return err
}

// flip copies an export, and changes one bit of a letter in the middle of its records.
func flip(export, flipped string) error {
	if err := os.CopyFS(flipped, os.DirFS(export)); err != nil {
		return err
	}
	name := filepath.Join(flipped, "records.ndjson")
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	at := len(b)/2 + slices.IndexFunc(b[len(b)/2:], func(c byte) bool { return strings.ContainsRune("bcdefghijklmnopqrstuvwxy", rune(c)) })
	b[at] ^= 1
	return os.WriteFile(name, b, 0o600)
}
