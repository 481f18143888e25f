package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	stdioBytes = 64e6 // that many parallel calls may add to the peak of few
	fewCalls   = 10
)

// measureStdio: a plan of parallel calls to one server that is a process of its
// own. What it holds in memory must not grow with the number of calls that wait.
func measureStdio(ctx context.Context, b *bench) ([]row, error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "stdio")
	if err := newStdioWorkspace(dir); err != nil {
		return nil, err
	}
	if _, err := runCommand(ctx, binary, "", "tools", "pin", "--yes", "--workspace", dir); err != nil {
		return nil, err
	}
	few, err := runCalls(ctx, binary, dir, fewCalls)
	if err != nil {
		return nil, err
	}
	all, err := runCalls(ctx, binary, dir, b.calls)
	if err != nil {
		return nil, err
	}
	calls := count(float64(b.calls))
	return []row{{figure: "`tipstaff run` of " + calls + " parallel calls to one stdio server", value: float64(b.calls) / all.took.Seconds(),
		measured: count(float64(b.calls)/all.took.Seconds()) + " calls/s", beside: fmt.Sprintf("%s in all; of %d calls %s", milliseconds(all.took), fewCalls, milliseconds(few.took))}, peakRow(few.peak, all.peak)}, nil
}

// untold stands where the measure of memory would.
const untold = "not known: there is no /proc here that tells it"

// peakRow: memory does not depend on the speed of the machine, so to miss this
// limit is a fault anywhere.
func peakRow(few, all float64) row {
	r := row{figure: "its peak of memory", value: all, bound: unjudged(fmt.Sprintf("+%g MB", stdioBytes/1e6))}
	if few == 0 || all == 0 {
		r.measured = untold
		return r
	}
	r.measured = megabytes(all) + " resident"
	r.beside = fmt.Sprintf("of %d calls %s: %+.1f MB", fewCalls, megabytes(few), (all-few)/1e6)
	r.bound = limit(r.bound.text, all-few <= stdioBytes)
	return r
}

// runCalls runs a plan of so many calls, and finds every one of them completed.
func runCalls(ctx context.Context, binary, dir string, calls int) (spent, error) {
	s, err := runCommand(ctx, binary, parallelCalls(calls), "run", "-", "--unattended", "--workspace", dir)
	if err != nil {
		return s, err
	}
	journal, err := runCommand(ctx, binary, "", "events", "@", "--json", "--workspace", dir)
	if err != nil {
		return s, err
	}
	done, err := completedCalls(journal.out)
	if err == nil && done != calls {
		err = fmt.Errorf("of %d calls %d completed", calls, done)
	}
	return s, err
}

// completedCalls counts the leaves that the records of a run tell to have ended
// well.
func completedCalls(records string) (n int, err error) {
	for line := range strings.Lines(records) {
		var r struct {
			Kind string
			Body struct{ Node, Status string }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return 0, err
		}
		if r.Kind == "plan.step" && r.Body.Node != "" && r.Body.Status == "completed" {
			n++
		}
	}
	return n, nil
}

// spent is what a command took.
type spent struct {
	took time.Duration
	peak float64 // bytes of memory; 0: this system does not say
	out  string  // what it printed
}

func runCommand(ctx context.Context, binary, stdin string, args ...string) (spent, error) {
	c := osexec.CommandContext(ctx, binary, args...)
	var out strings.Builder
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &strings.Builder{}
	begin := time.Now()
	if err := c.Start(); err != nil {
		return spent{}, err
	}
	ended, peak := make(chan struct{}), make(chan float64)
	go func() { peak <- highWater(c.Process.Pid, ended) }()
	err := c.Wait()
	close(ended)
	return spent{time.Since(begin), <-peak, out.String()}, explain(c, err)
}

// highWater is the most memory that a process has held, looked at again and again
// until it has ended: what the system tells afterwards is no less than the memory
// of whoever started the process. 0: this system does not say.
func highWater(pid int, ended <-chan struct{}) (bytes float64) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	for {
		if status, err := os.ReadFile(file); err == nil {
			bytes = max(bytes, highWaterIn(string(status)))
		}
		select {
		case <-ended:
			return bytes
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func highWaterIn(status string) (bytes float64) {
	for line := range strings.Lines(status) {
		if name, value, _ := strings.Cut(line, ":"); name == "VmHWM" {
			var kilobytes float64
			if _, err := fmt.Sscanf(value, "%f kB", &kilobytes); err == nil {
				return kilobytes * 1024
			}
		}
	}
	return 0
}

// parallelCalls is a plan of n calls, as many at once as a plan can have.
func parallelCalls(n int) string {
	children := make([]object, n)
	for i := range children {
		children[i] = object{"id": fmt.Sprintf("s%d", i), "kind": "tool_call", "tool": "mcp://echo/echo@1.0.0", "args": object{"text": string(result)}}
	}
	return string(planOf(n, object{"kind": "parallel", "max_parallel": 64, "children": children}))
}

// newStdioWorkspace declares this program as a server.
func newStdioWorkspace(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(object{"bounds": object{"tool_calls": 10_000}, "servers": object{"echo": object{
		// Names like the variable's are not for manifests to set.
		"command": []string{"env", childVariable + `={"Name":"serve"}`, self}, "max_concurrent": 64, "tools": object{"echo": object{"effect": "read"}},
	}}})
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "tipstaff.yaml"), manifest, 0o644)
}

// serveEcho is the life of that server.
func serveEcho(ctx context.Context, _ task, _ io.Writer) error {
	type text struct {
		Text string `json:"text"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Says it again."}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		return nil, in, nil
	})
	return s.Run(ctx, &mcp.StdioTransport{})
}
