package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The peer of the durable loop, in the versions that it is measured in.
var langgraph = []string{"langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2"}

//go:embed langgraph.py
var langgraphProgram []byte

// measureDurableLoop: a loop of three stages with every step on the disk, beside
// LangGraph with its SQLite checkpointer, round by round. It is shown and not judged:
// the two do not record the same.
func measureDurableLoop(ctx context.Context, b *bench) (rows []row, err error) {
	w, err := freshWorkspace(ctx, filepath.Join(b.dir, "durable"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	python, absent := b.peer(ctx)
	var ours, peers []float64
	for round := range turns(b.rounds) {
		start := time.Now()
		if _, err := w.run(localUser(ctx), []byte(loopDocument(b.loops, "a", "b", "c")), succeeded); err != nil {
			return nil, err
		}
		ours = append(ours, time.Since(start).Seconds())
		if absent != nil {
			continue
		}
		spent, err := b.goRound(ctx, python, fmt.Sprintf("langgraph-%d.db", round))
		if err != nil {
			return nil, err
		}
		peers = append(peers, spent)
	}
	beside := "LangGraph was not measured"
	if absent != nil {
		beside += ": " + strings.SplitN(absent.Error(), "\n", 2)[0]
	} else {
		beside = fmt.Sprintf("LangGraph with its SQLite checkpointer %.1f s, %s", median(peers), times(median(peers)/median(ours)))
	}
	return []row{{figure: fmt.Sprintf("a loop of 3 stages, %s iterations, every step on the disk", count(float64(b.loops))), value: median(ours),
		measured: fmt.Sprintf("%.1f s", median(ours)), beside: beside}}, nil
}

// peer is a Python that has LangGraph: that of this module's cache, where it is
// installed if it is not there and an index answers.
func (b *bench) peer(ctx context.Context) (python string, err error) {
	module, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	home := filepath.Join(module, ".cache", "langgraph")
	python = filepath.Join(home, "bin", "python")
	if osexec.CommandContext(ctx, python, "-c", "import langgraph.checkpoint.sqlite").Run() == nil {
		return python, nil
	}
	if !b.install {
		return "", errors.New("it is not installed")
	}
	for _, step := range [][]string{
		{"python3", "-m", "venv", home},
		append([]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "0", "--timeout", "15"}, langgraph...),
	} {
		if err := osexec.CommandContext(ctx, step[0], step[1:]...).Run(); err != nil {
			return "", fmt.Errorf("it cannot be installed (%s: %w)", strings.Join(step[:3], " "), err)
		}
	}
	return python, nil
}

// moduleDir is the folder of this module, whose scripts start what figures need.
func moduleDir(ctx context.Context) (string, error) {
	dir, err := osexec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", tipstaffModule).Output()
	return strings.TrimSpace(string(dir)), err
}

const tipstaffModule = "github.com/tipstaff/tipstaff"

// goRound is how many seconds LangGraph takes.
func (b *bench) goRound(ctx context.Context, python, database string) (float64, error) {
	program := filepath.Join(b.dir, "langgraph_loop.py")
	if err := os.WriteFile(program, langgraphProgram, 0o600); err != nil {
		return 0, err
	}
	cmd := osexec.CommandContext(ctx, python, program, filepath.Join(b.dir, database), strconv.Itoa(b.loops))
	cmd.Stderr = &strings.Builder{}
	out, err := cmd.Output()
	if err := explain(cmd, err); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}
