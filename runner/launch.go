package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	docs "github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/plan"
)

// A run may have a process of its own, which goes on when the one that started it ends. The
// process is written down in the transaction that makes the run, or takes it up again, and
// started then. It takes the lease itself, by a token that it finds in its environment.

// Launches keeps what is known of launched processes.
type Launches interface {
	UpdateLaunch(ctx context.Context, run, token string, change func(*flow.Launch)) error
}

// DefaultMaxRuns is how many runs may have a process of their own, unless somebody says
// otherwise.
const DefaultMaxRuns = 4

// LogName is the file in the folder of a run that its process prints to.
const LogName = "runner.log"

// RunDir is the folder of a run's files, relative to the workspace; "": there is none.
func (r *Runner) RunDir(run string) string {
	if r.Folder == "" {
		return ""
	}
	return r.relative(r.runFolder(run))
}

// LogFile is the file that the process of a run prints to.
func (r *Runner) LogFile(run string) string {
	return filepath.Join(r.runFolder(run), LogName)
}

// relative is a path as seen from the workspace, if it is inside of it.
func (r *Runner) relative(path string) string {
	if rel, err := filepath.Rel(r.Workspace, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// newLaunch is the record that a process is about to be started for a run.
func (r *Runner) newLaunch(run string, who person, checkout bool) (flow.Draft, error) {
	if r.Launcher == nil || r.Exec == nil || r.Launches == nil || r.Folder == "" {
		return flow.Draft{}, tipstaff.Errorf(tipstaff.UnsupportedPlatform, "runs cannot have a process of their own here").WithHint("start it without that")
	}
	l := &flow.Launch{Token: rand.Text(), Argv: r.Exec(run), At: r.Now().UTC(), Yes: who.Yes, DraftOnly: who.draftOnly,
		Max: cmp.Or(r.MaxRuns, DefaultMaxRuns), Checkout: checkout}
	return flow.Draft{Kind: string(tipstaff.KindRunLaunched), Body: flow.JSON(tipstaff.RunLaunched{Launch: l.Token, Argv: l.Argv}), Launch: l}, nil
}

func inCheckout(d tipstaff.IntentDraft) bool {
	return d.Files != nil && d.Files.Mode == docs.FilesCheckout
}

// spawn starts the process of a launch that is written down, and stays with it.
func (r *Runner) spawn(ctx context.Context, run string, l *flow.Launch) (*tipstaff.Launched, error) {
	log := r.LogFile(run)
	var p tipstaff.LaunchedProcess
	err := makeFolder(filepath.Dir(log))
	if err == nil {
		p, err = r.Launcher.Launch(ctx, tipstaff.LaunchRequest{Run: run, Token: l.Token, Argv: l.Argv, Dir: r.Workspace, Log: log})
	}
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.SpawnFailed, Run: idOf(run), Err: err,
			Message: "no process could be started for run " + run + ": " + err.Error()}
	}
	err = r.Launches.UpdateLaunch(context.WithoutCancel(ctx), run, l.Token, func(now *flow.Launch) {
		now.Containment = p.Containment
		if now.Process == nil { // else it has told itself
			now.Process = &p.Owner
		}
	})
	go r.reap(run, l.Token, p.Owner)
	return &tipstaff.Launched{Dir: r.RunDir(run), Pid: p.Owner.Pid, Argv: l.Argv, At: l.At}, explain(err, idOf(run))
}

// makeFolder makes the folder of a run, one level at a time: a workspace that was moved
// away is not made again where it was.
func makeFolder(dir string) error {
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// reap waits for the end of a process that this one has launched, keeps how it ended, and
// says of a run that it has not settled that it was interrupted.
func (r *Runner) reap(run, token string, p flow.Owner) {
	exit, known := r.Launcher.Probe(r.Stop, p)
	if !known {
		return // this process ends first
	}
	ctx := context.WithoutCancel(r.Stop)
	err := r.Launches.UpdateLaunch(ctx, run, token, func(now *flow.Launch) {
		if now.Exit == nil {
			now.Exit = &exit
		}
	})
	if err == nil {
		var row flow.Row
		if row, err = r.Store.Run(ctx, run); err == nil {
			err = r.recover(ctx, row, exit.Reason(), "launcher")
		}
	}
	_ = err // what cannot be written is found by whoever recovers next
}

// failSpawn ends a run for which no process could be started.
func (r *Runner) failSpawn(ctx context.Context, run string, l *flow.Launch, cause error) {
	ctx = context.WithoutCancel(ctx)
	p, err := openProgram(ctx, r.Store, run)
	if err != nil {
		return // it is found interrupted
	}
	out := flow.Outcome{Status: flow.Failed, Err: &plan.Failure{Reason: plan.ReasonInternal, Code: string(tipstaff.SpawnFailed), Message: cause.Error()}}
	out.Tally, err = r.totals(ctx, run, p)
	if err != nil {
		return
	}
	drafts, err := r.finish(p, out)
	if err != nil {
		return
	}
	_ = r.Launches.UpdateLaunch(ctx, run, l.Token, func(now *flow.Launch) {
		now.Exit = &flow.LaunchExit{Code: -1, Error: cause.Error()}
	})
	_ = r.Store.Write(ctx, run, func(tx flow.Tx) ([]flow.Draft, error) {
		if tipstaff.State(tx.Row().State).Terminal() {
			return nil, nil
		}
		return drafts, nil
	})
}

// launchAgain starts a process for a run that rests.
func (r *Runner) launchAgain(ctx context.Context, row flow.Row, p program, who person) (*tipstaff.Launched, error) {
	if err := r.recoverAll(ctx, []flow.Row{row}, "resume"); err != nil {
		return nil, err
	}
	draft, err := r.newLaunch(row.ID, who, inCheckout(p.shared().draft.IntentDraft))
	if err != nil {
		return nil, err
	}
	err = r.Store.Write(ctx, row.ID, func(tx flow.Tx) ([]flow.Draft, error) {
		switch now := tx.Row(); {
		case tipstaff.State(now.State).Terminal():
			return nil, flow.ErrEnded
		case r.held(now) || now.Epoch != row.Epoch:
			return nil, flow.ErrBusy
		}
		return []flow.Draft{draft}, nil
	})
	if err != nil {
		return nil, err
	}
	launched, err := r.spawn(ctx, row.ID, draft.Launch)
	if tipstaff.CodeOf(err) == tipstaff.SpawnFailed {
		_ = r.Launches.UpdateLaunch(context.WithoutCancel(ctx), row.ID, draft.Launch.Token, func(now *flow.Launch) {
			now.Exit = &flow.LaunchExit{Code: -1, Error: err.Error()}
		})
		if now, rerr := r.Store.Run(ctx, row.ID); rerr == nil {
			_ = r.recover(ctx, now, string(tipstaff.SpawnFailed), "launcher")
		}
	}
	return launched, err
}

// pendingLaunch reports whether a process was started for a run, lives, and is yet to take
// the lease.
func (r *Runner) pendingLaunch(row flow.Row) bool {
	return row.Owner == nil && row.Launch.Pending(r.aliveAt, r.Now())
}

func (r *Runner) aliveAt(o flow.Owner, heartbeat time.Time) bool {
	return r.Alive(o, heartbeat, r.Now())
}

// held reports whether somebody drives a run, or is about to.
func (r *Runner) held(row flow.Row) bool { return r.alive(row) || r.pendingLaunch(row) }

// execute is Resume in the process that was launched for a run: it drives it, once, as
// whoever launched it has said.
func (r *Runner) execute(ctx context.Context, row flow.Row) (started tipstaff.Started, err error) {
	l := row.Launch
	switch {
	case tipstaff.State(row.State).Terminal():
		return started, flow.ErrEnded
	case l == nil || l.Token != r.Launch || l.Epoch > 0 || l.Exit != nil:
		return started, tipstaff.Errorf(tipstaff.LeaseLost, "run %s was not launched with this token, or was taken up with it before", row.ID)
	}
	p, err := openProgram(ctx, r.Store, row.ID)
	if err != nil {
		return started, err
	}
	started = p.shared().started()
	_, err = r.begin(row.ID, p, person{Presence: tipstaff.Presence{Yes: l.Yes}, draftOnly: l.DraftOnly, launch: l.Token})
	return started, err
}

// superseded reports whether another process was launched for a run since this one was.
func (r *Runner) superseded(run string, a *active) bool {
	if r.Launch == "" || a.launch != r.Launch {
		return false
	}
	row, err := r.Store.Run(context.WithoutCancel(r.Stop), run)
	return err == nil && row.Launch != nil && row.Launch.Token != a.launch
}

// Executed keeps how the process that was launched for a run ends: it is about to.
func (r *Runner) Executed(ctx context.Context, run tipstaff.ID, code int, problem error) error {
	exit := &flow.LaunchExit{Code: code}
	if problem != nil {
		exit.Error = problem.Error()
	}
	self := r.Self(r.Origin, r.Launch)
	return explain(r.Launches.UpdateLaunch(ctx, run.String(), r.Launch, func(now *flow.Launch) {
		if now.Process == nil || *now.Process == self { // else this one has but got hold of the token
			now.Exit = exit
		}
	}), run)
}

// CancelRecorded reports whether somebody has asked for the end of a run.
func (r *Runner) CancelRecorded(ctx context.Context, run tipstaff.ID) bool {
	row, err := r.Store.Run(ctx, run.String())
	return err == nil && row.Cancel
}

// inside is where a file or folder lies, links resolved: in the workspace, or in a folder
// that the server allows.
func (r *Runner) inside(name string) (string, error) {
	outside := func(why string) error {
		return tipstaff.Errorf(tipstaff.PathOutside, "%s %s", name, why).WithHint("name something inside of the workspace")
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Workspace, path)
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		if !lexicallyInside(r.Workspace, name) { // who asks is not told what there is elsewhere
			return "", outside("lies outside of the workspace")
		}
		return "", tipstaff.Errorf(tipstaff.InvalidArgument, "%s cannot be found in the workspace", name)
	}
	if _, _, ok := below(path, append([]string{r.Workspace}, slices.Concat(r.AllowDirs, r.served())...)); ok {
		return path, nil
	}
	return "", outside("lies outside of the workspace")
}

// below is the first of some folders in which a path lies that has no links, and its place
// there.
func below(path string, folders []string) (root, rel string, ok bool) {
	for _, folder := range folders {
		root, err := filepath.EvalSymlinks(folder)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			return root, rel, true
		}
	}
	return "", "", false
}

func lexicallyInside(root, name string) bool {
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(root, name)
		return err == nil && filepath.IsLocal(rel)
	}
	return filepath.IsLocal(name)
}

// projectOf is a project as rows have it.
func (r *Runner) projectOf(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	path, err := r.inside(name)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", tipstaff.Errorf(tipstaff.InvalidArgument, "the project %s is not a folder", name)
	}
	root, err := filepath.EvalSymlinks(r.Workspace)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, path)
	switch {
	case err != nil || !filepath.IsLocal(rel):
		return path, nil
	case rel == ".":
		return "", nil
	}
	return rel, nil
}

// labelProject is the label of a run that names the folder which it is about.
const labelProject = "project"

// hosted gives a draft what its request says of where and as what the run is driven.
func (d *draftBody) hosted(h tipstaff.Hosting, digest string) {
	for name, value := range h.Labels {
		d.label(name, value)
	}
	if h.Project != "" {
		d.label(labelProject, h.Project)
	}
	if h.Message {
		d.label(tipstaff.LabelMessage, "")
	}
	d.key, d.keyDigest = h.Key, digest
}

func (d *draftBody) label(name, value string) {
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	d.Labels[name] = value
}

// maxHostLabel is how long a label, its name included, and a key may be; and how many labels
// there may be.
const (
	maxHostLabel  = 256
	maxHostLabels = 32
)

func checkHosting(h tipstaff.Hosting) error {
	if len(h.Key) > maxHostLabel || strings.ContainsRune(h.Key, 0) {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "a key has at most %d bytes, and none of them is 0", maxHostLabel)
	}
	if len(h.Labels) > maxHostLabels {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "a run has at most %d labels", maxHostLabels)
	}
	for name, value := range h.Labels {
		switch {
		case name == "" || len(name)+len(value) > maxHostLabel:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "a label has a name, and at most %d bytes", maxHostLabel)
		case name == tipstaff.LabelTask || name == labelProject || name == tipstaff.LabelMessage:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "the label %s is not for requests to give", name)
		}
	}
	return nil
}

// madeBefore finds the run that a request with a key has made before. A key with another
// request is request_conflict.
func (r *Runner) madeBefore(ctx context.Context, key, digest string) (started tipstaff.Started, found bool, err error) {
	if key == "" {
		return started, false, nil
	}
	rows, err := r.Store.Runs(ctx, flow.Query{User: userOf(ctx), Key: key, Limit: 1})
	if err != nil || len(rows) == 0 {
		return started, false, explain(err, tipstaff.ID{})
	}
	started, err = r.keptRun(ctx, rows[0], digest)
	return started, true, err
}

func (r *Runner) keptRun(ctx context.Context, row flow.Row, digest string) (tipstaff.Started, error) {
	run := idOf(row.ID)
	if row.KeyDigest != digest {
		return tipstaff.Started{}, &tipstaff.Error{Code: tipstaff.RequestConflict, Run: run, Message: "the key was used before, for another request: it has made run " + row.ID,
			Hint: "give another key, or none"}
	}
	p, err := openProgram(ctx, r.Store, row.ID)
	if err != nil {
		return tipstaff.Started{}, explain(err, run)
	}
	started := p.shared().started()
	started.Existed = true
	if l := row.Launch; l != nil {
		started.Launched = &tipstaff.Launched{Dir: r.RunDir(row.ID), Argv: l.Argv, At: l.At}
		if l.Process != nil {
			started.Launched.Pid = l.Process.Pid
		}
	}
	return started, nil
}

// draftDigest is that of a request for a draft. That it is a message is nothing that it asks for.
func draftDigest(req tipstaff.DraftRequest) string {
	req.Message = false
	return requestDigest("draft", req)
}

// requestDigest tells requests apart that have the same key.
func requestDigest(kind string, req any) string {
	return journal.Sum(append([]byte(kind+"\n"), flow.JSON(req)...)).String()
}

// host makes a run and has it driven: in this process, or in one of its own.
func (r *Runner) host(ctx context.Context, run tipstaff.ID, body draftBody, doc document, more []flow.Draft, v tipstaff.Validated, who person, detach bool) (tipstaff.Started, error) {
	started, err := r.create(ctx, run, body, doc, more, who, detach)
	if err != nil || started.Existed {
		return started, explain(err, run)
	}
	if !detach {
		return r.beginNew(ctx, run, v, who)
	}
	started.Validated = v
	return started, nil
}

// create makes a run and, with detach, starts a process of its own for it.
func (r *Runner) create(ctx context.Context, run tipstaff.ID, body draftBody, doc document, more []flow.Draft, who person, detach bool) (tipstaff.Started, error) {
	var launch *flow.Launch
	if detach {
		draft, err := r.newLaunch(run.String(), who, inCheckout(body.IntentDraft))
		if err != nil {
			return tipstaff.Started{}, err
		}
		launch, more, body.origin = draft.Launch, append(more, draft), tipstaff.OriginSupervisor
	}
	err := r.store(ctx, run, body, doc, more)
	var known *flow.KnownKey
	if errors.As(err, &known) { // at the same time
		row, err := r.Store.Run(ctx, known.Run)
		if err != nil {
			return tipstaff.Started{}, explain(err, idOf(known.Run))
		}
		return r.keptRun(ctx, row, body.keyDigest)
	}
	var before *flow.UnderWay
	if errors.As(err, &before) {
		return tipstaff.Started{}, &tipstaff.Error{Code: tipstaff.Busy, Run: idOf(before.Run), Err: err,
			Message: "the message before has not ended: run " + before.Run + " is driven, or waits for its turn", Hint: "wait for it, or cancel it"}
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	started := tipstaff.Started{Run: run}
	if !detach {
		return started, nil
	}
	started.Launched, err = r.spawn(ctx, run.String(), launch)
	if tipstaff.CodeOf(err) == tipstaff.SpawnFailed {
		r.failSpawn(ctx, run.String(), launch, err)
	}
	return started, err
}

// maintainEvery is how often a server looks for runs of dead owners.
const maintainEvery = 10 * time.Second

// Maintain recovers the runs of dead owners, and the launches of dead processes, every few
// seconds until ctx ends. failed is told what goes wrong.
func (r *Runner) Maintain(ctx context.Context, foundBy string, failed func(error)) {
	every(ctx, maintainEvery, nil, func() {
		if err := r.Recover(ctx, foundBy); err != nil && ctx.Err() == nil {
			failed(err)
		}
	})
}
