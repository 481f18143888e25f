package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	crowdPause = time.Second           // between three events of a worker: faster than models are
	crowdCPU   = 5.0                   // percent of a core
	crowdBytes = 60e6                  // more than the same process holds without workers
	manyCalls  = 100_000               // that the workers may make inside themselves
	clockTick  = 10 * time.Millisecond // in which the system counts the time of processes
)

// measureCrowd: a run of workers at once, each of which prints events at the pace of a
// model: what Tipstaff and its reapers use meanwhile, the CLIs not counted.
func measureCrowd(ctx context.Context, b *bench) ([]row, error) {
	figure := fmt.Sprintf("supervision of %d workers at once, %g events a second of each", b.crowd, 1/crowdPause.Seconds()*3)
	if _, err := os.Stat("/proc/self/smaps_rollup"); err != nil {
		return []row{{figure: figure, measured: untold}}, nil
	}
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	idle, err := b.watchCrowd(ctx, binary, "idle", object{"kind": "tool_call", "id": "wait", "tool": "mcp://builtin/sleep@1.0.0", "args": object{"duration": "1m"}}, 0)
	if err != nil {
		return nil, err
	}
	children := make([]object, b.crowd)
	for i := range children {
		children[i] = workerStep(fmt.Sprint("w", i))
	}
	busy, err := b.watchCrowd(ctx, binary, "crowd", object{"kind": "parallel", "max_parallel": b.crowd, "children": children}, b.crowd)
	if err != nil {
		return nil, err
	}
	more := busy.bytes - idle.bytes
	return []row{
		{figure: figure, value: busy.bytes, measured: fmt.Sprintf("%.1f %% of a core", busy.cpu),
			beside: fmt.Sprintf("idle %.1f %%; in %s", idle.cpu, b.round*crowdRounds), bound: goal(fmt.Sprintf("< %g %%", crowdCPU), busy.cpu < crowdCPU)},
		{figure: "memory of Tipstaff with them, their reapers included", value: busy.bytes, measured: megabytes(busy.bytes) + " resident, shares of shared pages counted",
			beside: fmt.Sprintf("idle %s: %+.1f MB; reapers %s", megabytes(idle.bytes), more/1e6, megabytes(busy.reapers)), bound: limit(fmt.Sprintf("+%g MB", crowdBytes/1e6), more < crowdBytes)},
	}, nil
}

// crowdRounds is how long it is watched, in rounds of a figure.
const crowdRounds = 5

// supervision is what a process and its reapers use.
type supervision struct {
	cpu     float64 // percent of a core
	bytes   float64
	reapers float64 // of the bytes
}

// watchCrowd runs a plan and looks at its process once so many workers have begun.
func (b *bench) watchCrowd(ctx context.Context, binary, name string, root object, workers int) (s supervision, err error) {
	dir := filepath.Join(b.dir, name)
	if err := newWorkerWorkspace(dir, task{Name: "cli lingers", Dir: dir}); err != nil {
		return s, err
	}
	c := osexec.CommandContext(ctx, binary, "run", "-", "--unattended", "--workspace", dir)
	c.Stdin, c.Stderr = strings.NewReader(string(planOf(manyCalls, root))), &strings.Builder{}
	if err := c.Start(); err != nil {
		return s, err
	}
	ended := make(chan error, 1)
	go func() { ended <- explain(c, c.Wait()) }()
	if err := awaitWorkers(dir, workers, ended); err != nil {
		return s, errors.Join(err, c.Process.Kill())
	}
	time.Sleep(b.round) // the commands that started it all have ended by then
	before, _ := supervisionOf(c.Process.Pid)
	start := time.Now()
	time.Sleep(b.round * crowdRounds)
	var spent time.Duration
	spent, s = supervisionOf(c.Process.Pid)
	s.cpu = 100 * float64(spent-before) / float64(time.Since(start))
	if workers == 0 {
		err := c.Process.Kill()
		<-ended
		return s, err
	}
	return s, errors.Join(os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600), <-ended)
}

// awaitWorkers waits until so many have begun, of none until there is a run.
func awaitWorkers(dir string, workers int, ended <-chan error) error {
	for range 100 * time.Minute / patience * 10 {
		found, err := filepath.Glob(filepath.Join(dir, "begun-*"))
		if workers == 0 {
			found, err = filepath.Glob(filepath.Join(dir, ".tipstaff", "journal", "*"))
		}
		if err != nil || len(found) >= max(1, workers) {
			return err
		}
		select {
		case err := <-ended:
			return errors.Join(errors.New("the run ended before its workers had begun"), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.New("the workers do not begin")
}

// supervisionOf is what a process and its children use, which are its reapers: CPU since
// they began, and memory now.
func supervisionOf(pid int) (cpu time.Duration, s supervision) {
	cpu, s.bytes = usedBy(pid)
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		child, err := strconv.Atoi(entry.Name())
		if err != nil || parentOf(child) != pid {
			continue
		}
		spent, bytes := usedBy(child)
		cpu, s.bytes, s.reapers = cpu+spent, s.bytes+bytes, s.reapers+bytes
	}
	return cpu, s
}

func usedBy(pid int) (cpu time.Duration, bytes float64) {
	if stat := statOf(pid); len(stat) > 12 {
		user, _ := strconv.Atoi(stat[11])
		system, _ := strconv.Atoi(stat[12])
		cpu = time.Duration(user+system) * clockTick
	}
	rollup, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(rollup)) {
		if _, err := fmt.Sscanf(line, "Pss: %f kB", &bytes); err == nil {
			return cpu, bytes * 1024
		}
	}
	return cpu, 0
}

func parentOf(pid int) int {
	if stat := statOf(pid); len(stat) > 1 {
		parent, _ := strconv.Atoi(stat[1])
		return parent
	}
	return 0
}

// statOf is what the system tells of a process, from its state on; none: it has ended.
func statOf(pid int) []string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
}

// sayForLong prints events until it is told to stop.
func sayForLong(ctx context.Context, t task, out *bufio.Writer, channel *mcp.ClientSession) error {
	if err := os.WriteFile(filepath.Join(t.Dir, fmt.Sprint("begun-", os.Getpid())), nil, 0o600); err != nil {
		return err
	}
	for i := range int(4 * patience / crowdPause) {
		event(out, i)
		if err := out.Flush(); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(t.Dir, "stop")); err == nil {
			break
		}
		time.Sleep(crowdPause)
	}
	return report(ctx, channel)
}
