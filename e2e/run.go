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
	for _, step := range []func(context.Context) error{t.pin, t.seed, t.walk, t.collect} {
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
	listed, _, err := box.Live(ctx, nil)
	for _, tool := range listed {
		if tool.Server == "builtin" && tool.Lock == tipstaff.ToolUndeclared {
			continue // it has more tools than the runs use
		}
		for into, live := range map[*map[string]listing]bool{&t.e.Locked: false, &t.e.Listed: true} {
			described, err := box.Describe(ctx, tool.Name(), live)
			if err != nil {
				return err
			}
			(*into)[tool.Server] = (*into)[tool.Server].with(described)
		}
	}
	return err
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

// walk is the story of a run: it is drafted, and then from each rest a decision at its one
// gate, or a correction, leads to the next.
func (t *trial) walk(ctx context.Context) (err error) {
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
	for _, s := range []struct {
		action  string
		answer  json.RawMessage
		correct func(object) // the program; nil: it is decided
		rest    string
		state   tipstaff.State
	}{
		{action: "answer", answer: json.RawMessage(text(object{question: answer})), rest: restDrafted, state: tipstaff.Proposed},
		{action: "accept", rest: restGate, state: tipstaff.Executing},
		{correct: gentle, rest: restCorrected, state: tipstaff.Executing},
		{correct: harsh, rest: restMaterial, state: tipstaff.Accepted},
		{action: "accept", rest: restAgain, state: tipstaff.Executing},
		{action: "approve", rest: restEnd, state: tipstaff.Completed},
	} {
		run, err := t.svc.Get(ctx, t.e.Run)
		if err != nil {
			return err
		}
		if s.correct != nil {
			err = t.correct(ctx, run, s.rest, s.correct)
		} else if len(run.OpenGates) != 1 {
			err = fmt.Errorf("the run has %d open gates where it should have one", len(run.OpenGates))
		} else {
			_, err = t.svc.Decide(ctx, tipstaff.DecideRequest{Run: run.ID, Gate: run.OpenGates[0].ID.String(), Action: s.action, Answer: s.answer})
		}
		if err != nil {
			return err
		}
		if _, err := t.svc.Resume(ctx, tipstaff.ResumeRequest{Run: run.ID}); err != nil {
			return err
		}
		if err := t.rests(ctx, s.rest, s.state); err != nil {
			return err
		}
	}
	return nil
}

// correct hands in the program of a run, changed.
func (t *trial) correct(ctx context.Context, run tipstaff.Run, reason string, change func(object)) error {
	b, err := t.svc.Artifact(ctx, run.ID, run.Program.Digest)
	if err != nil {
		return err
	}
	var program object
	if err := json.Unmarshal(b, &program); err != nil {
		return err
	}
	change(program)
	_, err = t.svc.Correct(ctx, tipstaff.CorrectRequest{Run: run.ID, Program: []byte(text(program)), Name: reason + ".json", Reason: reason})
	return err
}

// rests waits until nobody drives the run and notes how it is found. A run that is in
// another state than it can go on from has failed.
func (t *trial) rests(ctx context.Context, place string, want tipstaff.State) error {
	driven, err := t.svc.Wait(ctx, t.e.Run)
	if err != nil {
		return err
	}
	run, err := t.svc.Get(ctx, t.e.Run)
	if err != nil {
		return err
	}
	now, err := t.counted()
	r := rest{State: run.State, Calls: now.since(t.began), Asked: len(t.e.Asked)}
	for _, g := range run.OpenGates {
		r.Gates = append(r.Gates, g.Kind)
	}
	t.e.Rests[place] = r
	if err == nil && run.State != want {
		err = errors.New(tipstaff.Joined(": ", fmt.Sprintf("the run is %s where it should be %s", run.State, want), driven.Reason, driven.Message))
	}
	return err
}

// collect reads what the run has left behind.
func (t *trial) collect(ctx context.Context) error {
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
