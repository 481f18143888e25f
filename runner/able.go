package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// Servers that share the runs of a store have workspaces of their own, which may differ: while
// they are upgraded, or by mistake. A server drives what it can do as the run has frozen it, and
// leaves the rest to others: a run that waits is not lost, one whose call was refused is. What
// can be told beforehand is asked before a run is taken from the queue, and what cannot before
// each call.

// here is the workspace of this machine, as runs are compared with it.
type here struct {
	files    []string // that it was read from
	stamp    string   // of these
	manifest *workspace.Manifest
	lock     *tool.Lock
	tools    *tool.Registry
	err      error // it cannot be read
	// untrusted is why nothing is to be started here; "": its user trusts the workspace, or it
	// cannot be read.
	untrusted string
}

// unable are the runs that this server leaves to others, for as long as its workspace stays
// what it is.
type unable struct {
	mu       sync.Mutex
	now      *here
	runs     map[string]*passedOver
	passages map[string]*passage // by user
}

// passedOver is why a run is left to others, and when it was last seen to wait.
type passedOver struct {
	user string
	why  string
	seen time.Time
	// again is when the run is looked at once more, and pause how long that is after the last
	// look; zero: the reason lies in this machine, and lasts as long as its workspace.
	again time.Time
	pause time.Duration
}

// passage is how far along a user's line this server has come: whatever stands before was left to
// others. It begins anew now and then, for a run that comes back into the line has its old
// place there.
type passage struct {
	after int64
	began time.Time
	until time.Time
	whole bool // it has come to the end of the line
}

// passEvery is how often a line is looked at from its beginning, and seenWithin how old a look at
// a run may be that counts as what waits now.
const (
	passEvery  = 15 * time.Second
	seenWithin = 2 * passEvery
)

// How long a run rests that could not be looked at, the first time and at most.
const (
	leastRest = time.Second
	mostRest  = time.Minute
)

// stamped tells files apart that were written to.
func stamped(files []string) string {
	var b strings.Builder
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		} else {
			fmt.Fprintf(&b, "%s -\n", name)
		}
	}
	return b.String()
}

// here is the workspace as it is now. It is read when its files have changed.
func (r *Runner) here() *here {
	r.unable.mu.Lock()
	defer r.unable.mu.Unlock()
	if h := r.unable.now; h != nil && stamped(h.files) == h.stamp {
		return h
	}
	h := &here{files: []string{filepath.Join(r.Workspace, "tipstaff.yaml"), filepath.Join(r.Workspace, tool.LockName)}}
	if r.Policy != "" {
		h.files = append(h.files, r.Policy)
	}
	if r.State != "" {
		h.files = append(h.files, filepath.Join(r.State, workspace.TrustFolder))
	}
	h.stamp = stamped(h.files) // before they are read: what changes meanwhile is read again
	if h.manifest, h.err = r.manifest(); h.manifest == nil && h.err == nil && r.Implicit != nil {
		h.manifest, _ = r.implicit() // without one runs that need it are left to others
	}
	if h.err == nil {
		h.lock, h.err = r.lock()
	}
	if h.err == nil {
		if err := r.trusts(h.manifest, h.lock); err != nil {
			h.untrusted = fmt.Sprintf("%s: %v", tipstaff.CodeOf(err), err)
		}
	}
	if h.err == nil && h.manifest != nil {
		more := h.manifest.Obeys()
		own, _ := h.manifest.Server(builtin.Name)
		for _, name := range own.Programs {
			if path, err := builtin.LookProgram(r.Workspace, name); err == nil {
				more = append(more, path)
			}
		}
		for i, name := range more {
			if !filepath.IsAbs(name) {
				more[i] = filepath.Join(r.Workspace, name)
			}
		}
		h.files, h.stamp = append(h.files, more...), h.stamp+stamped(more)
		h.tools = tool.NewLockedRegistry(h.manifest, h.lock)
		for name, server := range r.Servers(h.manifest, r.Workspace, nil) {
			h.tools = h.tools.Withhold(name, h.lock.Ready(name, server))
		}
		h.tools = h.tools.WithPrograms(h.manifest, r.Workspace)
	}
	r.unable.now, r.unable.runs, r.unable.passages = h, map[string]*passedOver{}, map[string]*passage{}
	return h
}

// lacks says what this machine does not have, or has otherwise, of what a run has frozen; "":
// as far as it can be told beforehand, it can do the run.
func (r *Runner) lacks(c *common) string {
	h, frozen := r.here(), c.gate.Manifest
	switch {
	case c.draft.Keys != (tipstaff.RunKeys{}) && c.draft.Keys.Executor != r.Keys.Executor:
		return fmt.Sprintf("it was begun with the key %s, and this machine has %s in .tipstaff/keys", c.draft.Keys.Executor.ID(), r.Keys.Executor.ID())
	case h.err != nil:
		return h.err.Error()
	case h.untrusted != "":
		return h.untrusted
	case frozen == nil:
		return ""
	case h.manifest == nil:
		return "there is no tipstaff.yaml on this machine"
	}
	uris := slices.Clone(c.gate.AllowList)
	for _, child := range c.children {
		uris = append(uris, child.AllowList()...)
	}
	m := r.narrowed(h.manifest, c).ForRun(frozen)
	was := tool.Gate{AllowList: uris, Manifest: frozen, Tools: c.gate.Tools, Policy: frozen.Rules()}
	now := tool.Gate{AllowList: uris, Manifest: m, Tools: h.tools, Policy: m.Rules(), Lock: c.gate.Tools, File: h.lock}
	for _, uri := range uris {
		call := tool.Request{URI: uri}
		if was.Foresee(call) != nil {
			continue // it is refused wherever it is driven
		}
		if refused := now.Foresee(call); refused != nil {
			return refused.Message
		}
	}
	started, _ := c.programs()
	return cmp.Or(r.lacksModel(c, m), lacksPlaces(c, uris, frozen, m), h.lacksPrograms(c, started))
}

// lacksModel: the agents of a run need the models that they were settled with.
func (r *Runner) lacksModel(c *common, m *workspace.Manifest) string {
	for _, name := range slices.Sorted(maps.Keys(c.agents.settled)) {
		a := c.agents.settled[name]
		was, ok := c.gate.Manifest.Model(a.Model)
		if a.Way != "" && a.Way != pipeline.WayModel || a.Model == "" || !ok {
			continue
		}
		if now, _ := m.Model(a.Model); now.Provider != was.Provider || now.Model != was.Model {
			return fmt.Sprintf("the model %s is %s here, and was %s", a.Model, cmp.Or(strings.TrimSpace(now.Provider+" "+now.Model), "not declared"), was.Provider+" "+was.Model)
		}
		if _, err := r.model(m, a.Model); err != nil {
			return err.Error()
		}
	}
	return ""
}

// lacksPlaces: what a run may reach by the built-in tools that it has must be reached here, too.
func lacksPlaces(c *common, uris []string, frozen, m *workspace.Manifest) string {
	was, _ := frozen.Server(builtin.Name)
	now, _ := m.Server(builtin.Name)
	started, others := c.programs()
	for _, list := range []struct {
		name     string
		was, now []string
	}{{"roots", was.Roots, now.Roots}, {"hosts", was.Hosts, now.Hosts}, {"programs", was.Programs, now.Programs}} {
		if !c.reaches(uris, list.name) {
			continue
		}
		for _, item := range list.was {
			if list.name == "programs" && !others && !slices.Contains(started, item) {
				continue
			}
			if !slices.Contains(list.now, item) {
				return fmt.Sprintf("%s of builtin had %s, and does not here", list.name, item)
			}
		}
	}
	return ""
}

// reaches reports whether a tool of the run is limited by an option of builtin. Who drafts a
// plan may choose any.
func (c *common) reaches(uris []string, option string) bool {
	return c.drafts() || slices.ContainsFunc(uris, func(uri string) bool {
		u, err := tipstaff.ParseToolURI(uri)
		return err == nil && u.Server == builtin.Name && slices.Contains(builtin.Reaches(u.Tool), option)
	})
}

// lacksPrograms: a program that the run starts must be the one that was frozen.
func (h *here) lacksPrograms(c *common, names []string) string {
	for _, name := range names {
		was, frozen := c.gate.Tools.ProgramDigest(name)
		if !frozen || was == builtin.NoProgram {
			continue
		}
		if now, _ := h.tools.ProgramDigest(name); now != was {
			return fmt.Sprintf("the program %s has the digest %s here, and had %s when the run was made", name, cmp.Or(now, "none"), was)
		}
	}
	return ""
}

// texts are the plans of a run, and those of the skills that it dispatches.
func (c *common) texts() []*plan.Document {
	return slices.AppendSeq(c.text.plans(), maps.Values(c.children))
}

// drafts reports whether a plan of the run is yet to be drafted.
func (c *common) drafts() bool {
	return slices.ContainsFunc(c.texts(), func(doc *plan.Document) bool {
		if doc == nil || doc.Canonical() == nil {
			return true
		}
		for leaf := range doc.Root.Leaves {
			if leaf.Kind == plan.SubDispatch && c.children[leaf.Skill] == nil {
				return true
			}
		}
		return false
	})
}

// programs are those that the plans of a run name as what they start; others: what stands in a
// plan in the place of a name, an agent or a stage may start others, too, which shows when they
// are started.
func (c *common) programs() (names []string, others bool) {
	others = c.drafts() || c.text.stages() != nil
	for _, doc := range c.texts() {
		var at struct{ Root programNode }
		if doc == nil || json.Unmarshal(doc.Canonical(), &at) != nil {
			continue
		}
		for leaf := range doc.Root.Leaves {
			others = others || leaf.Kind == plan.Step
		}
		at.Root.each(func(n *programNode) {
			u, err := tipstaff.ParseToolURI(n.Tool)
			name := startedBy(n.Args)
			switch {
			case n.Tool == "" || err == nil && (u.Server != builtin.Name || u.Tool != "exec"):
			case name == "" || strings.Contains(name, "${"):
				others = true
			default:
				names = append(names, name)
			}
		})
	}
	return names, others
}

// programNode is what of a plan's node says which program it starts.
type programNode struct {
	Tool     string
	Args     json.RawMessage
	Children []programNode
}

func (n *programNode) each(f func(*programNode)) {
	f(n)
	for i := range n.Children {
		n.Children[i].each(f)
	}
}

// startedBy is the program that the arguments of exec name; "": they name none.
func startedBy(args json.RawMessage) string {
	var given struct{ Argv []json.RawMessage }
	var name string
	if json.Unmarshal(args, &given) == nil && len(given.Argv) > 0 {
		_ = json.Unmarshal(given.Argv[0], &name) // else it is nothing that could be started
	}
	return name
}

// passes reports whether a run of the queue that was looked at, with an error if it could not
// be opened, is left to others, and notes that.
func (r *Runner) passes(user, run string, p program, err error) bool {
	why := ""
	if err == nil {
		why = r.lacks(p.shared())
	} else {
		why = err.Error()
	}
	if why == "" {
		r.unable.mu.Lock()
		defer r.unable.mu.Unlock()
		delete(r.unable.runs, run)
		return false
	}
	// What a newer version has made is for that. Whatever else keeps a run from being opened
	// may pass.
	lasts := err == nil || tipstaff.CodeOf(explain(err, idOf(run))) == tipstaff.FormatNewer
	r.decline(user, run, why, lasts)
	return true
}

// decline notes why a run is left to others, for as long as the workspace stays what it is, or
// for some time.
func (r *Runner) decline(user, run, why string, lasts bool) {
	now := r.Now()
	l := &passedOver{user: user, why: why, seen: now}
	r.unable.mu.Lock()
	defer r.unable.mu.Unlock()
	if !lasts {
		l.pause = leastRest
		if before := r.unable.runs[run]; before != nil {
			l.pause = min(max(2*before.pause, leastRest), mostRest)
		}
		l.again = now.Add(l.pause)
		if w := r.unable.passages[user]; w != nil && l.again.Before(w.until) {
			w.until = l.again
		}
	}
	r.unable.runs[run] = l
}

// declines is why this server leaves a run to others; "": it does not, or has not looked at it.
func (r *Runner) declines(run string) string {
	r.unable.mu.Lock()
	defer r.unable.mu.Unlock()
	if l := r.unable.runs[run]; l != nil {
		return l.why
	}
	return ""
}

// nextAble is the first run of a user's line that this server has not left to others; nil: there
// is none. Those that were left are passed over once in a while, and not whenever a place is
// free.
func (r *Runner) nextAble(ctx context.Context, host, user string, w *passage) (*flow.Row, error) {
	for {
		line, err := r.Pool.Line(ctx, host, user, w.after)
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			w.whole = true
			return nil, nil
		}
		if row := r.passAlong(w, line); row != nil {
			return row, nil
		}
	}
}

// passageOf is how far this server has come along a user's line; nil: nothing in it was left to
// others. Where it begins anew, what it has not seen the last time is forgotten: it waits no
// more.
func (r *Runner) passageOf(user string) *passage {
	r.unable.mu.Lock()
	defer r.unable.mu.Unlock()
	now := r.Now()
	w := r.unable.passages[user]
	if w != nil && now.Before(w.until) {
		return w
	}
	if w != nil && w.whole {
		maps.DeleteFunc(r.unable.runs, func(_ string, l *passedOver) bool { return l.user == user && l.seen.Before(w.began) })
	}
	w = &passage{began: now, until: now.Add(passEvery)}
	some := false
	for _, l := range r.unable.runs {
		if l.user == user {
			some = true
			if l.again.After(now) && l.again.Before(w.until) {
				w.until = l.again
			}
		}
	}
	if !some {
		delete(r.unable.passages, user)
		return nil
	}
	r.unable.passages[user] = w
	return w
}

// passAlong passes over the runs of a line that were left to others, and is the first other one;
// nil: there is none.
func (r *Runner) passAlong(w *passage, line []flow.Row) *flow.Row {
	r.unable.mu.Lock()
	defer r.unable.mu.Unlock()
	now := r.Now()
	for i, row := range line {
		l := r.unable.runs[row.ID]
		if l == nil || !l.again.IsZero() && !now.Before(l.again) {
			return &line[i]
		}
		l.seen, w.after = now, row.N
	}
	return nil
}

// Lacks says what this server does not have of what runs need that wait for others, and how
// many wait.
func (r *Runner) Lacks() (runs int, why []string) {
	if untrusted := r.Untrusted(); untrusted != "" {
		why = append(why, untrusted)
	}
	r.unable.mu.Lock()
	defer r.unable.mu.Unlock()
	for _, l := range r.unable.runs {
		if r.Now().Sub(l.seen) > seenWithin {
			continue // others have taken it
		}
		runs++
		if len(why) < mostLacks && !slices.Contains(why, l.why) {
			why = append(why, l.why)
		}
	}
	slices.Sort(why)
	return runs, why
}

// mostLacks is how many things that a server lacks are told at once.
const mostLacks = 5

// stopLeft is why a drive was broken off that is left to others.
const stopLeft = "left_to_others"

// leaveTo breaks off the drive that a call belongs to, if other servers may drive the run on,
// before the call is made: what the run has frozen allows it, and this machine does not.
func (r *Runner) leaveTo(ctx context.Context, c *common, why string) (stopped error) {
	a := r.sharedDrive(ctx, c.run)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	a.lacks = why
	a.mu.Unlock()
	a.stop(&flow.Stop{Reason: stopLeft})
	<-ctx.Done() // as a child is with its parent
	return context.Cause(ctx)
}

// sharedDrive is the drive of a run, or of the one that has dispatched it, that other servers
// could go on with; nil: there is none in this process.
func (r *Runner) sharedDrive(ctx context.Context, run string) *active {
	for {
		r.mu.Lock()
		a := r.drives[run]
		r.mu.Unlock()
		if a == nil || a.shared {
			return a
		}
		parent, child, err := r.parentOf(ctx, run)
		if err != nil || !child {
			return nil
		}
		run = parent.ID
	}
}

// toolCheck refuses a call that the run's own gate or the present one refuses. What the first
// allows and the second does not is left to servers that may.
func (env *Environment) toolCheck(live func(context.Context, flow.Attempt) error) func(context.Context, flow.Attempt) error {
	return func(ctx context.Context, a flow.Attempt) error {
		if refusal, ok := a.Local.(*flow.Error); ok && refusal != nil {
			return refusal
		}
		err := live(ctx, a)
		var refused *flow.Error
		why := ""
		if errors.As(err, &refused) {
			why = refused.Message
		} else if err == nil {
			why = env.lacksProgram(a)
		}
		if why == "" || !env.r.pooled() {
			return err
		}
		if stopped := env.r.leaveTo(ctx, env.program.shared(), why); stopped != nil {
			return stopped
		}
		return err
	}
}

// lacksProgram is lacksPrograms of the one that a call starts.
func (env *Environment) lacksProgram(a flow.Attempt) string {
	var in tool.Input
	if !env.r.pooled() || json.Unmarshal(a.Input, &in) != nil {
		return ""
	}
	if u, err := tipstaff.ParseToolURI(in.URI); err != nil || u.Server != builtin.Name || u.Tool != "exec" {
		return ""
	}
	return env.r.here().lacksPrograms(env.program.shared(), []string{startedBy(in.Args)})
}

// mostExamined is how many runs are looked at for what a machine lacks.
const mostExamined = 1000

// Unable says what this machine lacks of what the runs need that wait in the queue which servers
// share, each thing once.
func (r *Runner) Unable(ctx context.Context) (found []tipstaff.Diagnostic, err error) {
	rows, err := r.Store.Runs(ctx, flow.Query{Queued: true, Limit: mostExamined})
	if err != nil {
		return nil, explain(err, tipstaff.ID{})
	}
	for _, row := range rows {
		p, err := openProgram(ctx, r.Store, row.ID)
		why := ""
		if err != nil {
			why = err.Error()
		} else {
			why = r.lacks(p.shared())
		}
		if why == "" || slices.ContainsFunc(found, func(d tipstaff.Diagnostic) bool { return d.Message == why }) {
			continue
		}
		found = append(found, tipstaff.Diagnostic{Severity: tipstaff.SeverityWarning, Code: "run_left", Where: "run " + row.ID, Message: why,
			Remedy: "this machine leaves it to servers that have what it needs: make one so, or end it with tipstaff cancel " + row.ID})
	}
	return found, nil
}

// OtherKeys is how many runs have not ended that were begun with keys which are not those of
// this machine, among the newest.
func (r *Runner) OtherKeys(ctx context.Context) (n int, err error) {
	known, err := r.Trusted()
	if err != nil || len(known) <= 2 { // the user's and the executor's of this machine
		return 0, explain(err, tipstaff.ID{})
	}
	rows, err := r.Store.Runs(ctx, flow.Query{States: unfinished, Limit: mostExamined})
	for _, row := range rows {
		if draft, err := readDraft(ctx, r.Store, row.ID); err == nil && draft.Keys != (tipstaff.RunKeys{}) && draft.Keys.Executor != r.Keys.Executor {
			n++
		}
	}
	return n, explain(err, tipstaff.ID{})
}
