package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	leastOfPostgres = 0.5 // of bare inserts
	leastOfTemporal = 50.0
	leastOfRestate  = 5.0
	peerSteps       = 100 // of a workflow of another engine
)

// measureScale: the store over Postgres, and servers that share it. Where there is no
// Postgres it says so and measures nothing.
func measureScale(ctx context.Context, b *bench) (_ []row, err error) {
	module, err := moduleDir(ctx)
	if err != nil {
		return nil, err
	}
	d, err := startDatabase(ctx, module)
	if err != nil {
		fmt.Fprintf(b.progress, "not measured: %v\n", err)
		return nil, nil
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	for _, measure := range []func(context.Context, *bench, *database) ([]row, error){
		func(ctx context.Context, b *bench, d *database) ([]row, error) {
			return postgresSteps(ctx, b, d, module)
		}, parkedInDatabase, deadServer, manyServers,
	} {
		rows, err := measure(ctx, b, d)
		b.add(rows...)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// postgresSteps: steps beside bare inserts, in turns, and beside engines that others have
// made, one step after the other. Every step is durable before the next begins: Postgres
// syncs its log at each commit.
func postgresSteps(ctx context.Context, b *bench, d *database, module string) ([]row, error) {
	program, err := b.testProgram(ctx, module, "postgres")
	if err != nil {
		return nil, err
	}
	rates := map[string][]float64{}
	for range turns(b.rounds) {
		round, err := benchmarks(ctx, []string{"TIPSTAFF_POSTGRES=" + d.address}, program, "-test.run", "^$", "-test.bench", "^BenchmarkSteps$", "-test.benchtime", fmt.Sprint(b.inserts, "x"))
		if err != nil {
			return nil, err
		}
		for name, rate := range round {
			rates[name] = append(rates[name], rate)
		}
	}
	var rows []row
	for _, c := range []struct {
		runs string
		hold func(string, bool) bound
	}{{"1", limit}, {"200", goal}} { // many runs at once share the cores with Postgres
		ours, bare := rates["Steps/steps/"+c.runs], rates["Steps/bare/"+c.runs]
		if len(ours) == 0 || len(bare) != len(ours) {
			return nil, fmt.Errorf("BenchmarkSteps has measured %v", rates)
		}
		ratios := make([]float64, len(ours))
		for i := range ours {
			ratios[i] = ours[i] / bare[i]
		}
		r := median(ratios)
		rows = append(rows, row{figure: "durable `read` steps on Postgres, runs at once: " + c.runs, value: median(ours), measured: count(median(ours)) + " steps/s",
			beside: fmt.Sprintf("bare inserts of as many bytes %s/s: %s", count(median(bare)), times(r)),
			bound:  c.hold(fmt.Sprintf("≥ %g × bare inserts", leastOfPostgres), r >= leastOfPostgres)})
	}
	one := median(rates["Steps/steps/1"])
	return append(rows,
		peerRow("Temporal, one activity a step", one, leastOfTemporal, limit, "its dev server syncs a transaction of SQLite for each change of a workflow", func() (float64, error) { return b.temporalSteps(ctx, module) }),
		peerRow("Restate, one `ctx.run` a step", one, leastOfRestate, goal, "its server syncs RocksDB's log for each entry of a journal", func() (float64, error) { return b.restateSteps(ctx, module) }),
	), nil
}

// peerRow is our rate of steps beside that of another engine, if that can be measured: hold is
// limit or goal.
func peerRow(name string, ours, least float64, hold func(string, bool) bound, syncs string, measure func() (float64, error)) row {
	r := row{figure: "durable steps of one run on Postgres, beside " + name, value: ours, measured: count(ours) + " steps/s", bound: unjudged(fmt.Sprintf("≥ %g ×", least))}
	theirs, err := measure()
	if err != nil {
		r.beside = "not measured: " + lastLine(err.Error())
		return r
	}
	times := ours / theirs
	r.beside = fmt.Sprintf("%s steps/s: %.1f ×; ours syncs Postgres' log for each step, %s", count(theirs), times, syncs)
	r.bound = hold(r.bound.text, times >= least)
	return r
}

var errNotInstalled = errors.New("it is not installed for a short run")

func (b *bench) temporalSteps(ctx context.Context, module string) (float64, error) {
	if !b.install {
		return 0, errNotInstalled
	}
	program, err := b.testProgram(ctx, module, "temporal")
	if err != nil {
		return 0, err
	}
	rates, err := benchmarks(ctx, nil, filepath.Join(module, "scripts", "temporal.sh"), program, "-test.run", "^$", "-test.bench", "^BenchmarkActivities$", "-test.benchtime", fmt.Sprint(peerSteps, "x"))
	if err == nil && rates["Activities"] == 0 {
		err = errors.New("BenchmarkActivities has measured nothing")
	}
	return rates["Activities"], err
}

func (b *bench) restateSteps(ctx context.Context, module string) (float64, error) {
	if !b.install {
		return 0, errNotInstalled
	}
	c := osexec.CommandContext(ctx, filepath.Join(module, "scripts", "restate.sh"), "node", filepath.Join(module, ".cache", "restate", "steps.mjs"), strconv.Itoa(peerSteps), strconv.Itoa(b.rounds))
	c.Stderr = &strings.Builder{}
	out, err := c.Output()
	if err := explain(c, err); err != nil {
		return 0, err
	}
	var rates []float64
	for _, line := range strings.Fields(string(out)) {
		seconds, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return 0, err
		}
		rates = append(rates, peerSteps/seconds)
	}
	return median(rates), nil
}

// testProgram compiles the tests of a package: only the package itself may import the
// driver or the SDK that its benchmarks use.
func (b *bench) testProgram(ctx context.Context, module, pkg string) (string, error) {
	name := filepath.Join(b.dir, pkg+".test")
	c := osexec.CommandContext(ctx, "go", "test", "-trimpath", "-c", "-o", name, "./"+pkg)
	c.Dir, c.Env, c.Stderr = module, append(os.Environ(), "CGO_ENABLED=0"), &strings.Builder{}
	return name, explain(c, c.Run())
}

var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// benchmarks runs a command that runs benchmarks, and returns how often a second each did
// what it measures.
func benchmarks(ctx context.Context, env []string, name string, args ...string) (map[string]float64, error) {
	c := osexec.CommandContext(ctx, name, args...)
	c.Env, c.Stderr = append(os.Environ(), env...), &strings.Builder{}
	out, err := c.Output()
	if err != nil {
		return nil, errors.Join(explain(c, err), errors.New(lastLine(string(out))))
	}
	rates := map[string]float64{}
	for _, line := range benchmarkLine.FindAllStringSubmatch(string(out), -1) {
		ns, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return nil, err
		}
		rates[line[1]] = 1e9 / ns
	}
	return rates, nil
}
