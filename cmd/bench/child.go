package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strings"
)

// Some figures need a process that can be killed, or whose memory is its own.
// It is this program again, told by a variable what to do.
const childVariable = "TIPSTAFF_BENCH_CHILD"

// task is what a child does.
type task struct {
	Name string
	Dir  string
	Runs int
}

var children = map[string]func(context.Context, task, io.Writer) error{
	"start":   startRuns,
	"recover": recoverRuns,
	"park":    parkRuns,
	"serve":   serveEcho,
	"read":    readEvents,

	"cli nothing": codingCLI(sayNothing),
	"cli much":    codingCLI(sayMuch),
	"cli calls":   codingCLI(sayCalls),
	"cli lingers": codingCLI(sayForLong),
}

// child is the life of such a process.
func child(role string) int {
	var t task
	err := json.Unmarshal([]byte(role), &t)
	if err == nil {
		err = children[t.Name](localUser(context.Background()), t, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", role, err)
		return 1
	}
	return 0
}

// command is a child yet to be started. It ends with ctx.
func (t task) command(ctx context.Context) (*osexec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := osexec.CommandContext(ctx, self)
	c.Env = append(os.Environ(), childVariable+"="+t.role())
	c.Stderr = &strings.Builder{}
	return c, nil
}

// role is the task as the variable tells it.
func (t task) role() string {
	role, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and strings can be encoded
	}
	return string(role)
}

// explain adds what a command had to say to the error it ended with.
func explain(c *osexec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %v", c.Path, err, c.Stderr)
}
