package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

const (
	killSteps  = 20 // of each run
	killPause  = 50 * time.Millisecond
	killBeyond = time.Second // what recovering may add to the steps that are left
)

// measureKill: a process is killed with runs in flight; another finds them,
// drives each from where it was to its end, and exits.
func measureKill(ctx context.Context, b *bench) ([]row, error) {
	var spent, left, beyond []float64
	for i := range turns(b.rounds) {
		dir := filepath.Join(b.dir, fmt.Sprintf("kill-%d", i))
		whole, ideal, err := killOnce(ctx, dir, b.kill)
		if err != nil {
			return nil, err
		}
		spent, left, beyond = append(spent, whole.Seconds()), append(left, ideal.Seconds()), append(beyond, (whole-ideal).Seconds())
	}
	over := median(beyond)
	return []row{{figure: fmt.Sprintf("`kill -9` with %d runs in flight, until all have ended", b.kill), value: median(spent),
		measured: fmt.Sprintf("%.2f s", median(spent)),
		beside:   fmt.Sprintf("%.2f s of steps left in the slowest run: %+.2f s", median(left), over),
		bound:    goal(fmt.Sprintf("+%g s", killBeyond.Seconds()), over <= killBeyond.Seconds())}}, nil
}

// killOnce returns how long the second process lived, and how long the steps
// take that were left of the slowest run.
func killOnce(ctx context.Context, dir string, runs int) (whole, ideal time.Duration, err error) {
	if err := newWorkspace(dir); err != nil {
		return 0, 0, err
	}
	if err := killHalfway(ctx, task{"start", dir, runs}); err != nil {
		return 0, 0, err
	}
	second, err := task{"recover", dir, runs}.command(ctx)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := second.Run(); err != nil {
		return 0, 0, explain(second, err)
	}
	whole = time.Since(start)
	steps, err := stepsLeft(ctx, dir, runs)
	return whole, time.Duration(steps) * killPause, err
}

// killHalfway kills the child when it says that half of the work is done.
func killHalfway(ctx context.Context, t task) error {
	c, err := t.command(ctx)
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	_, unsaid := bufio.NewReader(out).ReadString('\n')
	killed := c.Process.Kill()
	ended := c.Wait()
	if unsaid != nil || killed != nil {
		return explain(c, errors.Join(unsaid, killed, ended))
	}
	return nil
}

// startRuns drives runs side by side and says when half of their steps are
// durable.
func startRuns(ctx context.Context, t task, out io.Writer) error {
	tally := &tally{half: int64(t.Runs * killSteps / 2), reached: make(chan struct{})}
	w, err := openWorkspace(ctx, t.Dir, func(s flow.Store) flow.Store { tally.Store = s; return tally })
	if err != nil {
		return err
	}
	go func() {
		<-tally.reached
		fmt.Fprintln(out, "half")
	}()
	plan := toolCalls(killSteps, "mcp://builtin/sleep@1.0.0", object{"duration": killPause.String()})
	err = parallel(make([]struct{}, t.Runs), func(*struct{}) error {
		_, err := w.run(ctx, plan, succeeded)
		return err
	})
	return errors.Join(err, w.close())
}

// tally counts the steps that a store has made durable.
type tally struct {
	flow.Store
	half    int64
	count   atomic.Int64
	reached chan struct{}
}

func (t *tally) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	finished := int64(0)
	for _, d := range drafts {
		if d.Kind == kindOfStep {
			finished++
		}
	}
	t.Store.Append(l, drafts, func(err error) {
		if now := t.count.Add(finished); err == nil && now >= t.half && now-finished < t.half {
			close(t.reached)
		}
		done(err)
	})
}

// recoverRuns drives to their ends whatever runs it finds interrupted.
func recoverRuns(ctx context.Context, t task, _ io.Writer) error {
	w, err := openWorkspace(ctx, t.Dir, nil)
	if err != nil {
		return err
	}
	rows, err := w.store.Runs(ctx, flow.Query{States: []string{string(tipstaff.Executing)}})
	if err == nil {
		err = parallel(rows, func(row *flow.Row) error {
			id, err := tipstaff.ParseID(row.ID)
			if err != nil {
				return err
			}
			_, err = w.Resume(ctx, tipstaff.ResumeRequest{Run: id})
			if err != nil {
				return err
			}
			return w.expect(ctx, id, succeeded)
		})
	}
	return errors.Join(err, w.close())
}

// stepsLeft is how many steps of the slowest run were not recorded when the
// first process died. It also checks that every run was in flight then, has
// ended since, and took no step twice.
func stepsLeft(ctx context.Context, dir string, runs int) (left int, err error) {
	w, err := openWorkspace(ctx, dir, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	page, err := w.List(ctx, tipstaff.ListRequest{Limit: 2 * runs})
	if err != nil {
		return 0, err
	}
	if len(page.Runs) != runs {
		return 0, fmt.Errorf("%d runs of %d were found", len(page.Runs), runs)
	}
	for _, r := range page.Runs {
		var byEpoch [3]int
		for e, err := range w.Events(ctx, tipstaff.EventsRequest{Run: r.ID}) {
			switch {
			case err != nil:
				return 0, err
			case e.Kind == kindOfStep && e.Epoch < 3:
				byEpoch[e.Epoch]++
			}
		}
		if r.State != tipstaff.Completed || byEpoch[1]+byEpoch[2] != killSteps || byEpoch[2] == 0 {
			return 0, fmt.Errorf("run %s is %s, with %d steps before the kill and %d after it", r.ID, r.State, byEpoch[1], byEpoch[2])
		}
		left = max(left, byEpoch[2])
	}
	return left, nil
}
