package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
)

// Product is what is tried, as cmd has put it together.
type Product struct {
	// Open opens a workspace. asked is told every request to a model, as text.
	Open func(ctx context.Context, workspace string, asked func(request string)) (Session, error)
	// Tools looks after the tools of a workspace.
	Tools func(workspace string) (tipstaff.Tools, error)
	// Command runs a command of the command line: what it printed, and its exit code.
	Command func(ctx context.Context, args ...string) (code int, out []byte)
	// Files begins the command line of the server files; it is completed with a folder and
	// with the name of a file that counts. See [ServeFiles].
	Files []string
	// Models are those of the user's own manifest, with the name of the one that the agent
	// default uses.
	Models func() (models json.RawMessage, name string, err error)
}

// Session is an open workspace.
type Session interface {
	Service() tipstaff.Service
	Memory() tipstaff.Memory
	Close() error
}

// Options say what is done beside the runs.
type Options struct {
	// Live has the models of the user's manifest do A and C; B is scripted with what was
	// said in A.
	Live bool
	// Sabotage has each definition shown what must make it fail.
	Sabotage bool
}

// names of the runs.
var names = []string{"A", "B", "C"}

// Run makes the three runs and says what is true of them. An error is that they could not
// be made at all; a run that breaks off is part of the report.
func Run(ctx context.Context, p *Product, o Options) (*Report, error) {
	dir, err := os.MkdirTemp("", "tipstaff-e2e-")
	if err != nil {
		return nil, tipstaff.Errorf(tipstaff.Refused, "no temporary folder can be made: %v", err).WithHint("set TMPDIR to a folder that can be written")
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	local, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	defer local.close()
	h := &harness{Product: p, Options: o, dir: dir, local: local, said: script(local.address)}
	local.answer = h.said.to
	if o.Live {
		if h.models, h.model, err = p.Models(); err != nil {
			return nil, err
		}
	}
	runs, broken, err := h.runs(ctx)
	if err != nil {
		return nil, err
	}
	r := judge(runs, broken)
	if o.Sabotage {
		r.Faults = sabotage(runs)
	}
	return r, nil
}

// harness makes the runs.
type harness struct {
	*Product
	Options
	dir    string
	local  *loopback
	said   replies
	models json.RawMessage // live ones
	model  string
}

// runs makes the three, one after the other, and then proves them with every server
// stopped. broken says why one could not go on, by its name.
func (h *harness) runs(ctx context.Context) (runs []*evidence, broken map[string]string, err error) {
	broken = map[string]string{}
	var trials []*trial
	for i, name := range names {
		t, err := h.prepare(ctx, i, runs)
		if err != nil {
			return nil, nil, err
		}
		trials, runs = append(trials, t), append(runs, t.e)
		h.local.asked()
		if err := errors.Join(t.run(ctx), t.session.Close(), t.readFiles()); err != nil {
			broken[name] = err.Error()
		}
		if name == "C" && !h.Live { // what came through the wire
			t.e.Asked = h.local.asked()
		}
		if h.Live && name != "B" {
			t.e.Said = t.e.recorded()
		}
	}
	h.local.close()
	for i, t := range trials {
		if broken[names[i]] != "" {
			continue
		}
		if err := t.prove(ctx); err != nil {
			broken[names[i]] = err.Error()
		}
	}
	return runs, broken, ctx.Err()
}

// prepare makes the workspace of a run, and opens it.
func (h *harness) prepare(ctx context.Context, i int, before []*evidence) (*trial, error) {
	e := &evidence{Said: h.said, Live: h.Live && i != 1, Rests: map[string]rest{}, Locked: map[string]listing{}, Listed: map[string]listing{}}
	models, model := json.RawMessage(text(object{"scripted": object{"provider": "scripted", "script": "script.json"}})), "scripted"
	script := h.said.scripted()
	switch {
	case e.Live:
		models, model = h.models, h.model
	case h.Live:
		e.Said, script = before[0].Said, before[0].spoken()
	case i == 2:
		models, model = json.RawMessage(text(object{"wire": object{"provider": "openai-chat", "model": "e2e", "base_url": "http://" + h.local.address + "/v1"}})), "wire"
	}
	f, err := lay(filepath.Join(h.dir, names[i]), h.Files, h.local.address, h.said, script, models, model)
	if err != nil {
		return nil, err
	}
	session, err := h.Open(ctx, f.workspace, func(request string) { e.Asked = append(e.Asked, request) })
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", names[i], err)
	}
	return &trial{product: h.Product, local: h.local, folders: f, session: session, svc: session.Service(), e: e}, nil
}
