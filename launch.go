package tipstaff

import (
	"context"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Launcher starts the processes that drive runs of their own, and ends them. A process is
// known by the flow.Owner that it is: by host, boot, pid namespace, pid and start time, of
// which none alone is trusted.
type Launcher interface {
	// Launch starts a process in a session of its own, with nothing to read and with what
	// it prints at the end of a file. It goes on when we end.
	Launch(context.Context, LaunchRequest) (LaunchedProcess, error)
	// Stop has a process end: it is asked to, as a group if it leads its own, and once
	// grace is over everything that it has started is killed with it. It returns when
	// nothing is left. One that has ended is no error; one that cannot be looked at from
	// here is errors.ErrUnsupported.
	Stop(ctx context.Context, p flow.Owner, run string, grace time.Duration) (Stopped, error)
	// Probe returns when a process that this one has launched has ended, or with ctx. It
	// reports whether that is known, and how it ended.
	Probe(ctx context.Context, p flow.Owner) (flow.LaunchExit, bool)
}

// LaunchRequest is a process that is to be started for a run.
type LaunchRequest struct {
	Run, Token string
	Argv       []string // the first is the path of the program
	Dir        string   // that it starts in
	Log        string   // the file that it prints to; its folder is there
}

// LaunchedProcess is one that was started.
type LaunchedProcess struct {
	Owner       flow.Owner
	Containment string // by what everything that it starts is found: cgroup, subreaper or group
}

// Stopped is what ending a process took.
type Stopped struct {
	Forced bool // it was killed
	Swept  int  // processes that were ended besides
}

// SupervisorFile is supervisor.json in the folder of a run: a copy, for people, of what the
// store knows of its latest launch and of the lease that this took.
type SupervisorFile struct {
	Schema      string            `json:"schema"`
	Run         string            `json:"run_id"`
	Workspace   journal.PublicKey `json:"workspace_id"` // the executor's key of the store
	Launch      string            `json:"launch"`
	Epoch       int64             `json:"epoch"` // 0: it has not taken the lease
	Pid         int               `json:"pid"`
	Pgid        int               `json:"pgid"`
	Start       int64             `json:"start_time"`
	Boot        string            `json:"boot_id"`
	PidNS       string            `json:"pid_ns"`
	Host        string            `json:"host"`
	Argv        []string          `json:"argv"`
	StartedAt   time.Time         `json:"started_at"`
	Containment string            `json:"containment"`
	Exit        *flow.LaunchExit  `json:"exit"` // null: it has not ended, or nobody saw how
}
