package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/process"
	"github.com/tipstaff/tipstaff/worker"
)

// The CLI of these figures is this program again. It is called as Claude Code is, prints
// what that prints, and connects to its channel.
const cliVersion = "2.1.197 (Claude Code)"

// codingCLI connects to the channel, if it was given one, and prints a whole stream with
// what say prints in the middle.
func codingCLI(say func(context.Context, task, *bufio.Writer, *mcp.ClientSession) error) func(context.Context, task, io.Writer) error {
	return func(ctx context.Context, t task, out io.Writer) (err error) {
		if slices.Contains(os.Args, "--version") {
			_, err := fmt.Fprintln(out, cliVersion)
			return err
		}
		var channel *mcp.ClientSession
		if conn, err := worker.DialChannel(ctx, os.Environ()); err == nil {
			client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
			if channel, err = client.Connect(ctx, &mcp.IOTransport{Reader: conn, Writer: conn}, nil); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, channel.Close()) }()
		}
		id := ""
		if i := slices.Index(os.Args, "--session-id"); i >= 0 {
			id = os.Args[i+1]
		}
		lines := bufio.NewWriterSize(out, 64<<10)
		fmt.Fprintf(lines, `{"type":"system","subtype":"init","session_id":%q,"mcp_servers":[{"name":"tipstaff","status":"connected"}]}`+"\n", id)
		if err := say(ctx, t, lines, channel); err != nil {
			return err
		}
		fmt.Fprintf(lines, `{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":%q,"total_cost_usd":0.01,"usage":{"input_tokens":10,"output_tokens":5}}`+"\n", id)
		return lines.Flush()
	}
}

func sayNothing(context.Context, task, *bufio.Writer, *mcp.ClientSession) error { return nil }

// sayMuch prints the events of a long turn, as they stand in a file.
func sayMuch(_ context.Context, t task, out *bufio.Writer, _ *mcp.ClientSession) error {
	events, err := os.Open(t.Dir)
	if err != nil {
		return err
	}
	defer events.Close()
	_, err = io.Copy(out, events)
	return err
}

// event prints three events, of about 2,300 bytes together: text, a call and its result.
func event(out io.Writer, i int) {
	fmt.Fprintf(out, `{"type":"assistant","message":{"id":"m%d","model":"m","content":[{"type":"text","text":%q}],"usage":{"input_tokens":10,"output_tokens":5}}}`+"\n", i, someText)
	fmt.Fprintf(out, `{"type":"assistant","message":{"id":"m%d","model":"m","content":[{"type":"tool_use","id":"c%d","name":"Read","input":{"file_path":%q}}]}}`+"\n", i, i, someText[:200])
	fmt.Fprintf(out, `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%d","content":%q}]}}`+"\n", i, someOutput)
}

var (
	someText   = strings.Repeat("some words of the model ", 20)
	someOutput = strings.Repeat("ok  \tpackage\t0.1s\n", 60)
)

// asCLI makes this program the CLI in an environment.
func (t task) asCLI() []string {
	return []string{"PATH=" + os.Getenv("PATH"), childVariable + "=" + t.role()}
}

// script is a program that is the CLI by itself: of its name, which a manifest can give.
func (t task) script(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	return os.WriteFile(path, []byte("#!/bin/sh\nexec env "+quoted(childVariable+"="+t.role())+" "+quoted(self)+` "$@"`+"\n"), 0o700)
}

// invocations makes invocations of a CLI without a run around them.
type invocations struct {
	dir string
	cli worker.Worker
	n   int
}

func newInvocations(dir string) (*invocations, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cli, err := worker.New(worker.Config{Name: "bench", Type: "claude", Command: self, Self: self, Starter: process.Workers{}})
	if err != nil {
		return nil, err
	}
	return &invocations{dir: dir, cli: cli}, os.MkdirAll(dir, 0o700)
}

// spawn makes one, which ends without a report.
func (v *invocations) spawn(ctx context.Context, t task) (worker.Result, error) {
	v.n++
	name := fmt.Sprint("i", v.n)
	folder := filepath.Join(v.dir, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return worker.Result{}, err
	}
	res, err := v.cli.Spawn(ctx, worker.Options{Run: "r", Path: "root", Invocation: name, Session: worker.Conversation{ID: "5b1c7c9e-0000-4000-8000-000000000000"},
		Prompt: "Do nothing.", Dir: v.dir, Env: t.asCLI(), Posture: worker.Auto, Limits: worker.Limits{Wall: patience * 4, Grace: time.Second}, Folder: folder, Logs: folder,
		Channel: noTask{}, Policy: allowAll{}, Sink: unheard{}})
	if err == nil && res.Outcome != worker.NoReport {
		err = fmt.Errorf("the invocation came to %s: %s", res.Outcome, res.StderrTail)
	}
	return res, err
}

// bare runs the CLI's turn without Tipstaff. Its version is asked for once, before the
// invocations that are measured.
func (t task) bare(ctx context.Context) (time.Duration, error) {
	c, err := t.command(ctx)
	if err != nil {
		return 0, err
	}
	c.Env = t.asCLI()
	start := time.Now()
	_, err = c.Output()
	return time.Since(start), explain(c, err)
}

// noTask is a channel that nobody calls.
type noTask struct{ worker.Channel }

type allowAll struct{}

func (allowAll) Static(string, string, string) worker.Ruling {
	return worker.Ruling{Effect: worker.Allow}
}
func (allowAll) Decide(context.Context, worker.Request) worker.Ruling {
	return worker.Ruling{Effect: worker.Allow}
}

// unheard is a sink that keeps nothing.
type unheard struct{}

func (unheard) Started(tipstaff.WorkerStarted) error { return nil }
func (unheard) Session(string) error                 { return nil }
func (unheard) Event(worker.Body)                    {}

const invokeLimit = 30 * time.Millisecond

// measureInvoke: an invocation of a CLI that does nothing, with its channel and its
// reaper, beside the CLI alone.
func measureInvoke(ctx context.Context, b *bench) ([]row, error) {
	v, err := newInvocations(filepath.Join(b.dir, "invoke"))
	if err != nil {
		return nil, err
	}
	nothing := task{Name: "cli nothing"}
	if _, err := v.spawn(ctx, nothing); err != nil { // the binary is in memory then, and its version known
		return nil, err
	}
	var ours, alone []float64
	for range b.starts {
		bare, err := nothing.bare(ctx)
		if err != nil {
			return nil, err
		}
		start := time.Now()
		if _, err := v.spawn(ctx, nothing); err != nil {
			return nil, err
		}
		ours, alone = append(ours, time.Since(start).Seconds()), append(alone, bare.Seconds())
	}
	all, bare := seconds(median(ours)), seconds(median(alone))
	return []row{{figure: "Tipstaff's own part of an invocation whose CLI does nothing", value: all.Seconds(), measured: milliseconds(all - bare),
		beside: fmt.Sprintf("%s in all, the CLI alone %s; medians of %d", milliseconds(all), milliseconds(bare), len(ours)),
		bound:  goal("< "+milliseconds(invokeLimit), all-bare < invokeLimit)}}, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
