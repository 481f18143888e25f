package main

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	processLimit = 100 * time.Millisecond
	usedRuns     = 100 // that a used workspace holds already
)

// measureProcess: the command, from its start to its exit, for a plan of one
// step.
func measureProcess(ctx context.Context, b *bench) ([]row, error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	used := filepath.Join(b.dir, "used")
	if err := useWorkspace(localUser(ctx), used, min(usedRuns, b.parked)); err != nil {
		return nil, err
	}
	if _, err := start(ctx, binary, used); err != nil { // the binary is in memory then
		return nil, err
	}
	var fresh, again []float64
	for i := range b.starts {
		dir := filepath.Join(b.dir, fmt.Sprintf("fresh-%d", i))
		if err := newWorkspace(dir); err != nil {
			return nil, err
		}
		first, err := start(ctx, binary, dir)
		if err != nil {
			return nil, err
		}
		later, err := start(ctx, binary, used)
		if err != nil {
			return nil, err
		}
		fresh, again = append(fresh, first.Seconds()), append(again, later.Seconds())
	}
	return []row{
		processRow("a fresh workspace", fresh),
		processRow(fmt.Sprintf("a workspace of %d runs", min(usedRuns, b.parked)), again),
	}, nil
}

func processRow(where string, all []float64) row {
	mid := median(all)
	d := time.Duration(mid * float64(time.Second))
	fastest := time.Duration(all[0] * float64(time.Second)) // median sorted them
	return row{figure: "`tipstaff run` of one step, in " + where, value: mid, measured: milliseconds(d),
		beside: fmt.Sprintf("median of %d; fastest %s", len(all), milliseconds(fastest)),
		bound:  goal("< "+milliseconds(processLimit), d < processLimit)}
}

// command is the binary to be measured, built as a release is if none was named.
func (b *bench) command(ctx context.Context) (string, error) {
	if b.tipstaff != "" {
		return filepath.Abs(b.tipstaff)
	}
	name := filepath.Join(b.dir, "tipstaff")
	build := osexec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", name, "github.com/tipstaff/tipstaff/cmd/tipstaff")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = &strings.Builder{}
	return name, explain(build, build.Run())
}

// useWorkspace makes a workspace in which plans were run already.
func useWorkspace(ctx context.Context, dir string, runs int) error {
	w, err := freshWorkspace(ctx, dir)
	if err != nil {
		return err
	}
	plan := readCalls(1)
	for range runs {
		if _, err = w.run(ctx, plan, succeeded); err != nil {
			break
		}
	}
	if closed := w.close(); err == nil {
		err = closed
	}
	return err
}

// start runs the command once, for a plan of one step.
func start(ctx context.Context, binary, workspace string) (time.Duration, error) {
	c := osexec.CommandContext(ctx, binary, "run", "-", "--workspace", workspace, "--unattended")
	c.Stdin, c.Stderr = strings.NewReader(string(readCalls(1))), &strings.Builder{}
	begin := time.Now()
	err := c.Run()
	return time.Since(begin), explain(c, err)
}
