// Command bench measures Tipstaff beside its limits and goals, and prints each row of its
// table as soon as it is measured. With -against it measures an earlier commit beside this
// one, and says which rows have become slower.
//
// A limit is what the docs promise whatever the machine, and the command fails where it is
// broken. What depends on the disk is measured in turns with its peer (bare SQLite, a plain
// file), round by round, and the ratio is what is limited: a slow or busy machine slows both
// sides. The others are counts and bytes, which no machine excuses. A goal may be missed: by
// a slow machine, or because the product is not there yet.
//
// The command exits with 0 if all limits are kept, whatever the goals; 1 if a limit is
// broken, or a row is slower than in the earlier commit; 2 if the invocation is invalid; 3
// if something could not be measured.
//
// Everything is written to a temporary folder, which is removed. Start at
// figures, then at the file that is named after a figure; comparisons are in against.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	debug.SetGCPercent(400) // as the command itself does
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(child(role))
	}
	if err := os.Setenv("TIPSTAFF_TRUST", "1"); err != nil { // nobody is asked about the folders that are measured
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// bench is one run of this program.
type bench struct {
	effort
	dir      string // where everything is written
	tipstaff string // the command that is measured; "": it is built
	only     *regexp.Regexp
	progress io.Writer // which figure is being measured
	table    io.Writer // each row as soon as it is there
	rows     []row     // so far
}

// add prints rows, and keeps them. Figures of many parts call it for each; what others
// return is added when they have ended.
func (b *bench) add(rows ...row) {
	for _, r := range rows {
		r.print(b.table)
	}
	b.rows = append(b.rows, rows...)
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

// counts are the settings of an effort by name, but for the time of a round.
func (e *effort) counts() map[string]*int {
	return map[string]*int{"rounds": &e.rounds, "runs": &e.runs, "calls": &e.calls, "records": &e.records, "starts": &e.starts, "turn": &e.turn,
		"asks": &e.asks, "loops": &e.loops, "followed": &e.followed, "crowding": &e.crowding, "started": &e.started}
}

func effortNames() []string {
	return append(slices.Sorted(maps.Keys(new(effort).counts())), "round")
}

// set changes settings: "rounds=1,round=100ms".
func (e *effort) set(text string) error {
	if text == "" {
		return nil
	}
	for setting := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(setting, "=")
		if name == "round" {
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return fmt.Errorf("effort %q: a duration above 0 is needed", setting)
			}
			e.round = d
			continue
		}
		field := e.counts()[name]
		if field == nil {
			return fmt.Errorf("effort %q: there are %s", setting, strings.Join(effortNames(), ", "))
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("effort %q: a number above 0 is needed", setting)
		}
		*field = n
	}
	return nil
}

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
	{"trust", measureTrust},
	{"protected", measureProtected},
	{"peer", measurePeer},
	{"site", measureSite},
	{"page", measurePage},
	{"scale", measureScale},
}

// measure takes all figures that were asked for. One that cannot be measured does not keep
// the others from it.
func (b *bench) measure(ctx context.Context) (errs error) {
	for _, f := range figures {
		if !b.wanted(f.name) || ctx.Err() != nil {
			continue
		}
		start := time.Now()
		fmt.Fprintf(b.progress, "%s …\n", f.name)
		rows, err := f.measure(ctx, b)
		b.add(rows...)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.name, err)
			fmt.Fprintln(b.progress, err)
			errs = errors.Join(errs, err)
		}
		fmt.Fprintf(b.progress, "%s: %.1f s\n", f.name, time.Since(start).Seconds())
	}
	return errors.Join(errs, ctx.Err())
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("short", false, "measure little: the figures say only that they can be taken")
	only := flags.String("run", "", "measure the figures whose names match this expression")
	parent := flags.String("dir", "", "folder on the disk to be measured (default: that of temporary files)")
	tipstaff := flags.String("tipstaff", "", "the command to be measured (default: built from this module)")
	flood := flags.Duration("flood", 0, "how long a page is open on a run that writes much (default: ten minutes)")
	much := flags.String("effort", "", "change how much is done, as rounds=1,round=100ms: "+strings.Join(effortNames(), ", "))
	against := flags.String("against", "", "measure the bench of this commit beside this one, and say which rows have become slower")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to the file")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitKept
	case err != nil:
		return exitInvalid
	}
	b := &bench{effort: full, tipstaff: *tipstaff, progress: stderr, table: stdout}
	if *short {
		b.effort = brief
	}
	if *flood > 0 {
		b.flood = *flood
	}
	err := b.effort.set(*much)
	if err == nil && *only != "" {
		b.only, err = regexp.Compile(*only)
	}
	names := figureNames()
	if *against != "" {
		names = compared
	}
	if err == nil && !slices.ContainsFunc(names, b.wanted) {
		err = fmt.Errorf("%s %q: there are %s", noFigure, *only, strings.Join(names, ", "))
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitInvalid
	}
	ctx, stop := signal.NotifyContext(localUser(context.Background()), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *against != "" {
		return b.against(ctx, *against, *parent)
	}
	if err := b.report(ctx, *parent, *profile); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUnmeasured
	}
	if *short {
		return exitKept
	}
	fmt.Fprintln(stdout)
	if !summarize(stdout, b.rows) {
		return exitBroken
	}
	return exitKept
}

// How the command ends.
const (
	exitKept       = 0 // every limit, and no row is slower; goals may be missed
	exitBroken     = 1 // a limit is, or a row is slower
	exitInvalid    = 2 // the invocation is
	exitUnmeasured = 3 // something could not be measured
)

// noFigure begins the message that no figure has the name that was asked for.
const noFigure = "no figure matches"

func figureNames() (names []string) {
	for _, f := range figures {
		names = append(names, f.name)
	}
	return names
}

// wanted says whether a figure was asked for.
func (b *bench) wanted(name string) bool { return b.only == nil || b.only.MatchString(name) }

// report measures in a folder of its own: it prints the machine, then each row.
func (b *bench) report(ctx context.Context, parent, profile string) (err error) {
	if b.dir, err = os.MkdirTemp(parent, "tipstaff-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	machine, err := b.machine(b.dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.table, "%s\n\n", machine)
	printHeader(b.table)
	return b.measure(ctx)
}
