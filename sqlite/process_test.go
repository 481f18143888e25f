//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bufio"
	"golang.org/x/sys/unix"
	"os/exec"
	"os/signal"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// The test binary is also the other process: with this variable set it does what
// the first argument names instead of running tests.
const childVariable = "TIPSTAFF_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	args := strings.Split(os.Getenv(childVariable), "\x1f")
	if err := children[args[0]](args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var children = map[string]func([]string) error{
	"create":  childCreate,
	"drive":   childDrive,
	"take":    childTake,
	"decide":  childDecide,
	"migrate": childMigrate,
	"limited": childLimited,
}

// child is a process that runs one of these.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
	in  io.WriteCloser
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.Env = append(os.Environ(), childVariable+"="+strings.Join(args, "\x1f"))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// line is the next line the child writes.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("the child ended: %v", errors.Join(c.out.Err(), c.Wait()))
	}
	return c.out.Text()
}

func (c *child) wait(t *testing.T) {
	t.Helper()
	if err := c.Wait(); err != nil {
		t.Fatalf("the child: %v", err)
	}
}

// childBench is a store in a child process.
func childBench(dir string, o *Options) (*bench, error) {
	o.UserKey = true
	s, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir}
	b.use(s)
	return b, nil
}

func createIn(b *bench) (string, error) {
	id := tipstaff.NewID(time.Now()).String()
	return id, b.Create(context.Background(), flow.NewRun{ID: id, User: "local"}, storetest.Begun(b.Keys()))
}

func childCreate(args []string) error {
	b, err := childBench(args[0], &Options{})
	if err != nil {
		return err
	}
	for range 5 {
		id, err := createIn(b)
		if err != nil {
			return err
		}
		fmt.Println(id)
	}
	return b.Close()
}

func TestProcessesCreateTheStoreAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".tipstaff")
	var all []*child
	for range 4 {
		all = append(all, start(t, "create", dir))
	}
	var ids []string
	for _, c := range all {
		for range 5 {
			ids = append(ids, c.line(t))
		}
		c.wait(t)
	}
	b := benchIn(t, dir)
	b.open(nil)
	defer b.shut()
	for _, id := range ids {
		b.MustVerify(id)
	}
	if keys, err := b.PublicKeys(t.Context()); err != nil || len(keys) != 2 {
		t.Errorf("%d keys were made: %v", len(keys), err)
	}
}

// childDrive appends until it is killed, and says what was acknowledged.
func childDrive(args []string) error {
	b, err := childBench(args[0], &Options{})
	if err != nil {
		return err
	}
	id, err := createIn(b)
	if err != nil {
		return err
	}
	l, err := b.Acquire(context.Background(), id, flow.Owner{Kind: "foreground", Pid: os.Getpid()})
	if err != nil {
		return err
	}
	fmt.Println(id)
	for n := 1; ; n++ {
		if err := storetest.AppendErr(b, l, storetest.Step(fmt.Sprintf("root/%d", n))); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".tipstaff")
	for _, acknowledged := range []int{1, 7, 60} {
		c := start(t, "drive", dir)
		id := c.line(t)
		for range acknowledged {
			c.line(t)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		last := acknowledged
		for c.out.Scan() { // what it had still written before it died
			n, err := strconv.Atoi(c.out.Text())
			if err != nil {
				break // half a line
			}
			last = n
		}
		_ = c.Wait()
		b := benchIn(t, dir)
		b.open(nobodyLives())
		if got := len(b.MustRecords(id)) - 5; got < last {
			t.Errorf("%d steps were acknowledged, %d are there", last, got)
		}
		b.MustVerify(id)
		if l := b.MustAcquire(id); l.Epoch != 2 {
			t.Errorf("epoch %d after the first", l.Epoch)
		}
		b.shut()
	}
}

// childTake takes a run over and appends to it.
func childTake(args []string) error {
	b, err := childBench(args[0], nobodyLives())
	if err != nil {
		return err
	}
	l, err := b.Acquire(context.Background(), args[1], flow.Owner{Kind: "foreground", Pid: os.Getpid()})
	if err != nil {
		return err
	}
	if err := storetest.AppendErr(b, l, storetest.Step("root/other")); err != nil {
		return err
	}
	return b.Close()
}

func TestAnotherProcessFences(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustAppend(l, storetest.Step("root/mine"))
	start(t, "take", b.dir, run).wait(t)
	if err := storetest.AppendErr(b, l, storetest.Step("root/late")); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("append of the first owner: %v", err)
	}
	kinds := b.Kinds(run)
	if last := kinds[len(kinds)-2:]; last[0] != "run.resumed" || last[1] != "effect.finished" || len(kinds) != 8 {
		t.Fatalf("kinds: %v", kinds)
	}
	b.MustVerify(run)
}

// childDecide decides a gate when told, says when it did, and asks for a cancel.
func childDecide(args []string) error {
	b, err := childBench(args[0], &Options{})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := b.WriteDrafts(args[1], storetest.Resolve("G1", "approve", "command")); err != nil {
		return err
	}
	fmt.Println(time.Now().UnixNano())
	if err := b.WriteDrafts(args[1], flow.Draft{Kind: "run.cancel_requested"}); err != nil {
		return err
	}
	return b.Close()
}

func TestForeignRecordsReachTheOwner(t *testing.T) {
	b := newBench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustAppend(l, storetest.Gate("G1", "root/ok"))
	for range 50 { // others that wait as well
		stop := b.Watch(b.MustCreate(), func(flow.Record) {})
		defer stop()
	}
	type seen struct {
		flow.Record
		at time.Time
	}
	records := make(chan seen, 10)
	defer b.Watch(run, func(r flow.Record) { records <- seen{r, time.Now()} })()
	changed, stop := b.Follow(run)
	defer stop()

	c := start(t, "decide", b.dir, run)
	c.line(t)
	fmt.Fprintln(c.in, "go")
	r := <-records
	decided, err := strconv.ParseInt(c.line(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != "policy.gate.resolve" || r.Seq != 7 || r.From != "user" {
		t.Fatalf("watched %+v", r.Record)
	}
	if late := r.at.Sub(time.Unix(0, decided)); late > 200*time.Millisecond {
		t.Errorf("the decision came %v after it was made", late)
	}
	if r := <-records; r.Kind != "run.cancel_requested" || r.Seq != 8 {
		t.Fatalf("watched %+v", r.Record)
	}
	<-changed
	c.wait(t)
	if parked, err := b.Park(l, flow.Parking{Gates: []string{"G1"}}); err != nil || parked {
		t.Fatalf("parked %v: %v", parked, err)
	}
}

// childLimited writes under a limit on the size of files, which is an error of
// the disk as far as SQLite can tell.
func childLimited(args []string) error {
	b, err := childBench(args[0], &Options{})
	if err != nil {
		return err
	}
	id, err := createIn(b)
	if err != nil {
		return err
	}
	l, err := b.Acquire(context.Background(), id, flow.Owner{Kind: "foreground"})
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	size := uint64(500 << 10)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size}); err != nil {
		return err
	}
	acknowledged := 0
	for err == nil {
		if err = storetest.AppendErr(b, l, storetest.Step(fmt.Sprintf("root/%d", acknowledged))); err == nil {
			acknowledged++
		}
	}
	if !errors.Is(err, flow.ErrStoreDown) || !strings.Contains(err.Error(), b.dir) {
		return fmt.Errorf("the write failed with %w", err)
	}
	unlimited := unix.Rlimit{Cur: size << 10, Max: size}
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &unlimited)
	if err := storetest.AppendErr(b, l, storetest.Step("root/late")); !errors.Is(err, flow.ErrStoreDown) {
		return fmt.Errorf("a store that was down wrote again: %v", err)
	}
	fmt.Println(id, acknowledged)
	return nil
}

func TestFailedWriteStopsTheStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".tipstaff")
	c := start(t, "limited", dir)
	id, n, _ := strings.Cut(c.line(t), " ")
	c.wait(t)
	acknowledged, err := strconv.Atoi(n)
	if err != nil || acknowledged == 0 {
		t.Fatalf("%q acknowledged: %v", n, err)
	}
	b := benchIn(t, dir)
	b.open(nobodyLives())
	defer b.shut()
	if got := len(b.MustRecords(id)) - 5; got < acknowledged {
		t.Errorf("%d were acknowledged, %d are there", acknowledged, got)
	}
	b.MustVerify(id)
	b.MustAppend(b.MustAcquire(id), storetest.Step("root/again"))
}
