package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	streamRate  = 50e6 // bytes a second
	streamBytes = 16e6 // that a stream ten times as long may add to the peak
)

// streamRead is what the child reports.
type streamRead struct {
	Took  time.Duration
	CPU   time.Duration // of the process that reads
	Bytes int64
	Peak  float64 // 0: this system does not say
}

// measureStream: an invocation whose CLI prints as fast as it can. What Tipstaff holds in
// memory must not grow with what it prints.
func measureStream(ctx context.Context, b *bench) ([]row, error) {
	short, err := b.readStream(ctx, b.events/10)
	if err != nil {
		return nil, err
	}
	var long streamRead
	var rates, busy []float64
	for range turns(b.rounds) {
		if long, err = b.readStream(ctx, b.events); err != nil {
			return nil, err
		}
		rates, busy = append(rates, float64(long.Bytes)/long.Took.Seconds()), append(busy, float64(long.Bytes)/long.CPU.Seconds())
	}
	rate := median(rates)
	memory := row{figure: "the peak of memory of whoever reads them", value: long.Peak, bound: unjudged(fmt.Sprintf("+%g MB", streamBytes/1e6)), measured: untold}
	if long.Peak > 0 {
		memory.measured = megabytes(long.Peak) + " resident"
		memory.beside = fmt.Sprintf("of %s events %s: %+.1f MB", count(float64(b.events/10)), megabytes(short.Peak), (long.Peak-short.Peak)/1e6)
		memory.bound = limit(memory.bound.text, long.Peak-short.Peak <= streamBytes)
	}
	return []row{{figure: count(float64(b.events)) + " events of a worker read, mapped and logged", value: rate, measured: megabytes(rate) + "/s",
		beside: fmt.Sprintf("by its own CPU time %s/s; %s in all, the CLI's start included; medians of %d", megabytes(median(busy)), megabytes(float64(long.Bytes)), len(rates)),
		bound:  goal(fmt.Sprintf("≥ %g MB/s", streamRate/1e6), rate >= streamRate)}, memory}, nil
}

func (b *bench) readStream(ctx context.Context, events int) (r streamRead, err error) {
	dir, err := os.MkdirTemp(b.dir, "stream-")
	if err != nil {
		return r, err
	}
	c, err := task{Name: "read", Dir: dir, Runs: events}.command(ctx)
	if err != nil {
		return r, err
	}
	out, err := c.Output()
	if err != nil {
		return r, explain(c, err)
	}
	return r, errors.Join(json.Unmarshal(out, &r), os.RemoveAll(dir))
}

// readEvents is the life of a process that reads one stream.
func readEvents(ctx context.Context, t task, out io.Writer) error {
	v, err := newInvocations(t.Dir)
	if err != nil {
		return err
	}
	much := filepath.Join(t.Dir, "much")
	if err := writeEvents(much, t.Runs); err != nil {
		return err
	}
	before, start := cpuTime(), time.Now()
	res, err := v.spawn(ctx, task{Name: "cli much", Dir: much})
	r := streamRead{Took: time.Since(start), CPU: cpuTime() - before}
	if err != nil {
		return err
	}
	if want := t.Runs / 3; res.Steps != want || res.ToolCalls != want {
		return fmt.Errorf("%d steps and %d calls were read, not %d", res.Steps, res.ToolCalls, want)
	}
	info, err := os.Stat(filepath.Join(t.Dir, "i1", "i1.jsonl"))
	if err != nil {
		return err
	}
	r.Bytes = info.Size()
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		r.Peak = highWaterIn(string(status))
	}
	return json.NewEncoder(out).Encode(r)
}

func writeEvents(file string, events int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 64<<10)
	for i := range events / 3 {
		event(out, i)
	}
	return errors.Join(out.Flush(), f.Close())
}

// cpuTime is what this process has used, all that it waited for excluded.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
