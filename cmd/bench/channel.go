package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const channelLimit = 5 * time.Millisecond

// measureChannel: calls of a worker to its channel in a run, each answered when it is
// committed to the journal, beside a row that is committed by SQLite alone.
func measureChannel(ctx context.Context, b *bench) ([]row, error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "channel")
	if err := newWorkerWorkspace(dir, task{Name: "cli calls", Dir: dir, Runs: b.reports}); err != nil {
		return nil, err
	}
	if _, err := runCommand(ctx, binary, string(planOf(1, workerStep("calls"))), "run", "-", "--unattended", "--workspace", dir); err != nil {
		return nil, err
	}
	took, err := readDurations(filepath.Join(dir, "calls.json"))
	if err != nil {
		return nil, err
	}
	if len(took) != b.reports {
		return nil, fmt.Errorf("%d calls were made, not %d", len(took), b.reports)
	}
	peer, err := newBare(filepath.Join(b.dir, "channel-bare.db"), 512)
	if err != nil {
		return nil, err
	}
	rate, err := repeat(b.round, peer.step)
	if err := errors.Join(err, peer.close()); err != nil {
		return nil, err
	}
	mid := seconds(median(took))
	return []row{{figure: "a call of a worker's channel, committed to the journal", value: mid.Seconds(), measured: milliseconds(mid),
		beside: fmt.Sprintf("median of %d; slowest %s; a row that SQLite commits %s", len(took), milliseconds(seconds(took[len(took)-1])), milliseconds(seconds(1/rate))),
		bound:  goal("< "+milliseconds(channelLimit), mid < channelLimit)}}, nil
}

// newWorkerWorkspace declares the CLI as a worker that changes no file.
func newWorkerWorkspace(dir string, cli task) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	script := filepath.Join(dir, "cli")
	doc, err := json.Marshal(object{"version": 1, "workers": object{"bench": object{"type": "claude", "command": script, "posture": "read_only", "limits": object{"cost_usd": "0.10"}}},
		"servers": object{"builtin": object{"roots": []string{"."}, "tools": object{"sleep": object{"effect": "read"}}}}})
	if err != nil {
		return err
	}
	return errors.Join(cli.script(script), os.WriteFile(filepath.Join(dir, "tipstaff.yaml"), doc, 0o644))
}

func workerStep(id string) object {
	return object{"kind": "step", "id": id, "agent": "bench", "prompt": "Report."}
}

// sayCalls makes calls one after the other, writes down how long each took, and reports.
func sayCalls(ctx context.Context, t task, _ *bufio.Writer, channel *mcp.ClientSession) error {
	took := make([]float64, t.Runs)
	for i := range took {
		start := time.Now()
		if err := call(ctx, channel, "task_log", object{"level": "info", "text": "one of many"}); err != nil {
			return err
		}
		took[i] = time.Since(start).Seconds()
	}
	raw, err := json.Marshal(took)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(t.Dir, "calls.json"), raw, 0o600), report(ctx, channel))
}

func report(ctx context.Context, channel *mcp.ClientSession) error {
	return call(ctx, channel, "task_set_status", object{"status": "needs_review", "reason": "it is done"})
}

func call(ctx context.Context, channel *mcp.ClientSession, name string, args object) error {
	if channel == nil {
		return errors.New("there is no channel")
	}
	r, err := channel.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err == nil && r.IsError {
		err = fmt.Errorf("%s: %v", name, r.Content[0])
	}
	return err
}

func readDurations(file string) (took []float64, err error) {
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &took)
	}
	return took, err
}
