// Command bench measures Tipstaff beside its limits and prints one table.
//
// What depends on the disk is measured in turns with its peer (bare SQLite, a
// plain file), round by round, and judged by the ratio: a slow or busy machine
// slows both sides. Those ratios make the command fail, and so does what no machine
// excuses: the memory that calls in parallel take, the bytes that a turn stores, and
// what turns use beyond their bound. Times that a slow machine may miss are shown as
// below and fail nothing.
//
// Everything is written to a temporary folder, which is removed. Start at
// figures, then at the file that is named after a figure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
	"time"
)

func main() {
	debug.SetGCPercent(400) // as the command itself does
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(child(role))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// bench is one run of this program.
type bench struct {
	effort
	dir      string // where everything is written
	tipstaff string // the command that is measured; "": it is built
	only     *regexp.Regexp
	progress io.Writer
}

// effort is how much is done for each figure.
type effort struct {
	rounds   int           // of each side; the median counts
	round    time.Duration // of one side
	runs     int           // at once
	calls    int           // of the whole plan
	records  int           // that are verified
	kill     int           // runs in flight when their process is killed
	parked   int           // runs that wait
	starts   int           // of the command
	turn     int           // steps of a short turn; a long one has ten times as many
	together int           // turns at once
	sizes    []int         // steps of runs that grow
	replayed []int         // steps that are replayed
	asks     int           // of a daemon
	loops    int           // iterations of a short loop; a long one has ten times as many
	events   int           // that a worker prints
	crowd    int           // workers at once
	reports  int           // calls of a worker's channel
	files    int           // of a repository
	followed int           // calls of a run that others follow
	crowding int           // who follow it
	started  int           // runs over HTTP
	flood    time.Duration // of a page on a run that writes much
	inserts  int           // steps on Postgres, in each round
	sitting  int           // runs that wait in a database
	serving  []int         // servers over one database
	install  bool          // a peer that is not there
}

var (
	full = effort{rounds: 5, round: time.Second, runs: 200, calls: 1000, records: 100_000, kill: 100, parked: 10_000, starts: 20, turn: 100, together: 100,
		sizes: []int{100, 1000, 10_000, 100_000}, replayed: []int{1000, 10_000}, asks: 10_000, loops: 1000, events: 100_000, crowd: 20, reports: 500, files: 10_000, followed: 200, crowding: 1000, started: 1000, flood: 10 * time.Minute,
		inserts: 4000, sitting: 100_000, serving: []int{1, 2, 4, 10}, install: true}
	// brief is enough to see that every figure can still be measured.
	brief = effort{rounds: 1, round: 100 * time.Millisecond, runs: 20, calls: 20, records: 1000, kill: 5, parked: 20, starts: 2, turn: 10, together: 10,
		sizes: []int{100, 1200}, replayed: []int{100}, asks: 20, loops: 20, events: 300, crowd: 2, reports: 10, files: 100, followed: 5, crowding: 50, started: 10, flood: 5 * time.Second,
		inserts: 200, sitting: 100, serving: []int{1, 2}}
)

// figures is what is measured, in this order.
var figures = []struct {
	name    string
	measure func(context.Context, *bench) ([]row, error)
}{
	{"steps", measureSteps},
	{"concurrent", measureConcurrent},
	{"plan", measurePlan},
	{"memory log", measureMemoryLog},
	{"dispatch", measureDispatch},
	{"stdio", measureStdio},
	{"tools", measureTools},
	{"verify", measureVerify},
	{"status", measureStatus},
	{"kill", measureKill},
	{"parked", measureParked},
	{"process", measureProcess},
	{"resume", measureResume},
	{"turn", measureTurn},
	{"turn bytes", measureTurnBytes},
	{"delta", measureDelta},
	{"overshoot", measureOvershoot},
	{"growth", measureGrowth},
	{"simulator", measureSimulator},
	{"bounds", measureBounds},
	{"schedule", measureSchedule},
	{"loop", measureLoop},
	{"clone", measureClone},
	{"durable loop", measureDurableLoop},
	{"invocation", measureInvoke},
	{"stream", measureStream},
	{"crowd", measureCrowd},
	{"channel", measureChannel},
	{"worktree", measureWorktree},
	{"launch", measureLaunch},
	{"site", measureSite},
	{"page", measurePage},
	{"scale", measureScale},
}

// measure takes all figures that were asked for.
func (b *bench) measure(ctx context.Context) ([]row, error) {
	var rows []row
	for _, f := range figures {
		if b.only != nil && !b.only.MatchString(f.name) {
			continue
		}
		start := time.Now()
		fmt.Fprintf(b.progress, "%s …", f.name)
		measured, err := f.measure(ctx, b)
		fmt.Fprintf(b.progress, " %.1f s\n", time.Since(start).Seconds())
		rows = append(rows, measured...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return rows, nil
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("short", false, "measure little: the figures say only that they can be taken")
	only := flags.String("run", "", "measure the figures whose names match this expression")
	parent := flags.String("dir", "", "folder on the disk to be measured (default: that of temporary files)")
	tipstaff := flags.String("tipstaff", "", "the command to be measured (default: built from this module)")
	flood := flags.Duration("flood", 0, "how long a page is open on a run that writes much (default: ten minutes)")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to the file")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	b := &bench{effort: full, tipstaff: *tipstaff, progress: stderr}
	if *short {
		b.effort = brief
	}
	if *flood > 0 {
		b.flood = *flood
	}
	if *only != "" {
		re, err := regexp.Compile(*only)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 2
		}
		b.only = re
	}
	ctx, stop := signal.NotifyContext(localUser(context.Background()), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rows, err := b.report(ctx, *parent, *profile, stdout)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if !*short && failed(rows) {
		return 1
	}
	return 0
}

// report measures in a folder of its own and prints the machine, then the table.
func (b *bench) report(ctx context.Context, parent, profile string, w io.Writer) (rows []row, err error) {
	if b.dir, err = os.MkdirTemp(parent, "tipstaff-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	machine, err := b.machine()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%s\n\n", machine)
	rows, err = b.measure(ctx)
	printTable(w, rows)
	return rows, err
}
