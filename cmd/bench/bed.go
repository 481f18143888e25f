package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/supervisor"
)

// bed is a store with the engine over it, for figures that need no more of the
// product than that. Its runs are signed as all runs are.
type bed struct {
	*sqlite.Store
	engine flow.Engine
	dir    string
	owner  flow.Owner
}

func newBed(dir string) (*bed, error) {
	s, err := sqlite.Open(dir, &sqlite.Options{UserKey: true})
	if err != nil {
		return nil, err
	}
	if _, err := s.PutBlob(context.Background(), empty); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &bed{Store: s, engine: flow.New(s, nil), dir: dir, owner: supervisor.Self("foreground", "bench")}, nil
}

// fileSize is that of the database; after Close all is in it.
func (b *bed) fileSize() (int64, error) {
	info, err := os.Stat(filepath.Join(b.dir, "tipstaff.db"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// empty stands for the program and for the outputs of these runs, both of which
// a verifier looks for.
var empty = json.RawMessage(`{}`)

// create makes a run as the runner does: drafted, compiled, accepted and in
// effect, four envelopes in one transaction.
func (b *bed) create(ctx context.Context) (string, error) {
	program := flow.Digest(empty)
	id, accept, keys := tipstaff.NewID(time.Now()).String(), tipstaff.NewID(time.Now()).String(), b.Keys()
	drafts := []flow.Draft{
		{Kind: string(tipstaff.KindIntentDraft), From: "executor", Body: flow.JSON(object{"program_kind": "plan", "program_digest": program,
			"inputs": object{}, "bounds": object{}, "user": "local", "origin": "foreground", "frozen": object{},
			"keys": object{"user": keys.User, "executor": keys.Executor}})},
		{Kind: string(tipstaff.KindIntentCompiled), From: "executor", Body: flow.JSON(object{"attempts": 0})},
		{Kind: string(tipstaff.KindIntentAccept), From: "user", ID: accept, Body: flow.JSON(object{"intent_hash": program,
			"program_digest": program, "revision": 1, "bounds": object{}, "via": "command"})},
		{Kind: string(tipstaff.KindPlanProposed), From: "executor", Body: flow.JSON(object{"intent_hash": program,
			"program_digest": program, "revision": 1, "accepted_by": accept})},
	}
	return id, b.Create(ctx, flow.NewRun{ID: id, User: "local", Kind: "plan", Origin: "foreground", Program: program}, drafts)
}

// drive takes a run to its end on this engine.
func (b *bed) drive(ctx context.Context, run string, program flow.Func) error {
	return drive(ctx, b.engine, flow.Job{Run: run, Owner: b.owner, Flow: program}, flow.Completed)
}

// drive performs the job, whose calls are all of the activity read, and expects
// it to end so.
func drive(ctx context.Context, e flow.Engine, job flow.Job, want flow.Status) error {
	job.Root = "root"
	job.Acts = map[string]flow.Activity{readStep: {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: result}, nil
	}}}
	out, err := e.Drive(ctx, job)
	if err != nil {
		return err
	}
	if out.Status != want {
		return fmt.Errorf("run %s is %s, not %s: %s: %v", job.Run, out.Status, want, out.Reason, out.Err)
	}
	return nil
}

const readStep = "tool.call"

// A step has an input of the usual size and a result of 190 bytes.
var (
	input  = json.RawMessage(`{"uri":"mcp://builtin/read_file@1.0.0","args":{"path":"notes/today.txt"}}`)
	result = json.RawMessage(`{"text":"` + strings.Repeat("word ", 35) + `1234"}`)
)

// takeStep is one of the steps that all figures count.
func takeStep(fc flow.Context, n int) error {
	_, err := fc.Do(flow.Call{Key: "s" + strconv.Itoa(n), Name: readStep, Class: flow.Read, Input: input})
	return err
}

// ask opens a gate that nobody is going to answer.
func ask(fc flow.Context) error {
	_, err := fc.Wait(flow.Gate{Key: "ok", Kind: "question", Question: "Go on?", Subject: empty,
		Actions: []string{"approve", "deny"}, Deny: "deny"})
	return err
}

// segment is after how many records a long program begins its history afresh.
const segment = 1000

// steps is a program of one step after the other, for as long as more says. It
// is asked before each, and may take its time: nothing else is going on. Before each
// step comes what else the program does.
func steps(more func(done int) bool, also ...func(fc flow.Context, done int)) flow.Func {
	return func(fc flow.Context, state json.RawMessage) (json.RawMessage, error) {
		done := 0
		if len(state) > 0 {
			if err := json.Unmarshal(state, &done); err != nil {
				return nil, err
			}
		}
		for n := range segment {
			if !more(done) {
				return empty, nil
			}
			for _, f := range also {
				f(fc, done)
			}
			if err := takeStep(fc, n); err != nil {
				return nil, err
			}
			done++
		}
		return nil, flow.Continue(flow.JSON(done))
	}
}
