package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

const (
	turnStep   = 100 * time.Microsecond // that a step of a turn may take
	turnGrowth = 12                     // times the cost that ten times the steps may have
)

// measureTurn: what the loop adds to a model and a tool that answer at once, and
// whether that grows with the conversation. The turns that are compared are taken
// in turns: whatever else the machine does meets both.
func measureTurn(ctx context.Context, b *bench) ([]row, error) {
	l, err := newLoop(agent.Settings{})
	if err != nil {
		return nil, err
	}
	short, long := b.turn, 10*b.turn
	var costs, ratios []float64
	for range turns(b.rounds * perRound) {
		few, err := l.spent(ctx, 10, short)
		if err != nil {
			return nil, err
		}
		many, err := l.spent(ctx, 1, long)
		if err != nil {
			return nil, err
		}
		costs = append(costs, many.Seconds()/float64(long))
		ratios = append(ratios, 10*many.Seconds()/few.Seconds())
	}
	cost, grown := median(costs), median(ratios)
	return []row{
		{figure: fmt.Sprintf("a step in a turn of %s on the memory log", count(float64(long))), value: cost, measured: fmt.Sprintf("%.1f µs", cost*1e6),
			beside: fmt.Sprintf("fastest %.1f µs; model and tool answer at once; gate, policy and engine are in it", costs[0]*1e6), // median sorted them
			bound:  goal(fmt.Sprintf("< %d µs", turnStep.Microseconds()), cost < turnStep.Seconds())},
		{figure: "a turn of " + count(float64(long)) + " steps beside one of " + count(float64(short)), value: grown, measured: times(grown) + " the time",
			bound: goal(fmt.Sprintf("≤ %d ×", turnGrowth), grown <= turnGrowth)},
	}, nil
}

// measureTurnBytes: what a turn leaves in its workspace, records, documents and
// files, beyond an empty one. Every request has the whole conversation in it; what
// is stored must not.
func measureTurnBytes(ctx context.Context, b *bench) ([]row, error) {
	short, long := b.turn, 10*b.turn
	var bytes [3]int64
	for i, steps := range []int{0, short, long} {
		var err error
		if bytes[i], err = turnBytes(localUser(ctx), filepath.Join(b.dir, fmt.Sprintf("turn-%d", steps)), steps); err != nil {
			return nil, err
		}
	}
	few, many := float64(bytes[1]-bytes[0]), float64(bytes[2]-bytes[0])
	return []row{{figure: "a turn of " + count(float64(long)) + " steps in its workspace", value: many, measured: megabytes(many),
		beside: fmt.Sprintf("of %s steps %s: %s", count(float64(short)), megabytes(few), times(many/few)),
		bound:  limit(fmt.Sprintf("≤ %d ×", turnGrowth), many <= turnGrowth*few)}}, nil
}

// readingAgent declares an agent beside what plans use, and bounds that do not
// matter.
const readingAgent = `models:
  reader: {provider: openai-chat, model: reader, base_url: "http://127.0.0.1:1"}
agents:
  default: {model: reader, max_steps: 1000, tools: ["mcp://builtin/read_file@1.0.0"]}
policy:
  rules:
    - {id: reads, tool: "builtin/*", effect: read, do: allow}
`

// turnBytes is the size of a workspace in which a turn of so many steps was taken;
// 0: none.
func turnBytes(ctx context.Context, dir string, steps int) (int64, error) {
	w, err := freshWorkspace(ctx, dir, readingAgent)
	if err != nil {
		return 0, err
	}
	w.Models = func(workspace.Model, workspace.File) (agent.Model, error) { return reader{steps: steps}, nil }
	if steps > 0 {
		program := flow.JSON(object{"kind": "turn", "message": "Read the note, again and again.", "max_steps": steps,
			"bounds": object{"model_calls": 2 * steps, "tool_calls": 2 * steps, "tokens": 1_000_000_000}})
		_, err = w.run(ctx, program, succeeded)
	}
	if err := errors.Join(err, w.close()); err != nil {
		return 0, err
	}
	return folderSize(filepath.Join(dir, ".tipstaff"))
}

func folderSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		size += info.Size()
		return err
	})
	return size, err
}
