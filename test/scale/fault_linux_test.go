package scale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// bed is three servers over a database with a replica, and a proxy between each server and
// each of the two.
type bed struct {
	*testing.T
	*load
	primary, replica *database
	proxies          [][2]*proxy
	stores           []string // the address of the store, as each machine has it
	dice             *rand.Rand

	left     int // runs that are yet to be started
	started  atomic.Int64
	slots    chan struct{} // who starts one
	starting sync.WaitGroup
}

// lease is longer than a server is believed that does not renew its leases.
const lease = 30 * time.Second

// newBed starts them. The clock of each server is ahead of that of the one before.
func newBed(t *testing.T, ahead time.Duration) *bed {
	t.Helper()
	n := newNetwork(t)
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("TIPSTAFF_SCALE_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TIPSTAFF_SCALE_SEED=%d", seed)
	b := &bed{T: t, load: newLoad(t, n), primary: newDatabase(t, "primary"), replica: newDatabase(t, "replica"), dice: rand.New(rand.NewPCG(seed, 1)), slots: make(chan struct{}, 8)}
	b.primary.create()
	b.primary.start()
	b.replica.follow(b.primary)
	b.replica.start()
	for i := range 3 {
		m := newMachine(t, n, i)
		m.skew = time.Duration(i-1) * ahead
		b.machines = append(b.machines, m)
		pair := [2]*proxy{newProxy(t, n.host(), b.primary.addr), newProxy(t, n.host(), b.replica.addr)}
		b.proxies = append(b.proxies, pair)
		b.stores = append(b.stores, fmt.Sprintf("postgres://tipstaff@%s:%s,%s:%s/postgres?target_session_attrs=read-write", n.host(), pair[0].port(), n.host(), pair[1].port()))
		b.furnish(m)
	}
	b.serve()
	return b
}

// furnish gives a machine the files of the workspace, and the keys of the first one.
func (b *bed) furnish(m *machine) {
	b.Helper()
	for _, f := range txtar.Parse([]byte(b.fit(workspace))).Files {
		name := filepath.Join(m.dir, f.Name)
		m.must(os.MkdirAll(filepath.Dir(name), 0o755))
		m.must(os.WriteFile(name, f.Data, 0o644))
	}
}

// serve starts the servers: the first one makes the tables and the keys.
func (b *bed) serve() {
	b.Helper()
	for i, m := range b.machines {
		if i > 0 {
			m.must(exec.Command("cp", "-a", filepath.Join(b.machines[0].dir, ".tipstaff"), m.dir).Run())
		}
		m.serve(b.stores[i])
		m.awaitHealth(30 * time.Second)
	}
}

// fault is something that goes wrong for a while.
type fault struct {
	name string
	do   func(*bed, *machine)
}

var faults = []fault{
	{"a cable out for less than a lease", func(b *bed, m *machine) {
		m.unplug(true)
		time.Sleep(5 * time.Second)
		m.unplug(false)
	}},
	{"a cable out for longer than a lease", func(b *bed, m *machine) {
		m.unplug(true)
		time.Sleep(lease)
		m.unplug(false)
	}},
	{"a slow network", func(b *bed, m *machine) {
		b.each(m, func(p *proxy) { p.slow(300 * time.Millisecond) })
		time.Sleep(8 * time.Second)
		b.each(m, func(p *proxy) { p.slow(0) })
	}},
	{"connections that are reset", func(b *bed, m *machine) {
		for range 20 {
			b.each(m, (*proxy).reset)
			time.Sleep(time.Duration(b.dice.IntN(300)) * time.Millisecond)
		}
	}},
	{"a server killed and started again", func(b *bed, m *machine) {
		m.kill()
		time.Sleep(time.Second)
		b.restart(m)
	}},
	{"a server killed, and long gone", func(b *bed, m *machine) {
		m.kill()
		time.Sleep(lease)
		b.restart(m)
	}},
	{"a server that sleeps for longer than a lease", func(b *bed, m *machine) {
		m.signal(syscall.SIGSTOP)
		time.Sleep(lease)
		m.signal(syscall.SIGCONT)
	}},
	{"a server that is told to end", func(b *bed, m *machine) {
		m.drain()
		time.Sleep(time.Second)
		b.restart(m)
	}},
	{"the database killed", func(b *bed, _ *machine) {
		b.primary.kill()
		time.Sleep(2 * time.Second)
		b.primary.start()
	}},
	{"the database's disk full", func(b *bed, _ *machine) {
		free := b.primary.fill()
		time.Sleep(8 * time.Second)
		free()
		b.primary.start() // if it gave up
	}},
	{"the machine of the database gone, and its replica takes over", func(b *bed, _ *machine) {
		if b.replica == nil {
			return // it has
		}
		for _, pair := range b.proxies {
			close(pair[0].silent)
		}
		b.primary.kill()
		time.Sleep(time.Second)
		b.primary, b.replica = b.replica, nil
		b.primary.must(b.primary.query(`SELECT pg_promote()`))
		b.primary.must(b.primary.query(`ALTER SYSTEM SET synchronous_standby_names = ''`))
		b.primary.must(b.primary.query(`SELECT pg_reload_conf()`))
	}},
}

func (b *bed) each(m *machine, f func(*proxy)) {
	for i, other := range b.machines {
		if other == m {
			for _, p := range b.proxies[i] {
				f(p)
			}
		}
	}
}

func (b *bed) restart(m *machine) {
	for i, other := range b.machines {
		if other == m {
			m.serve(b.stores[i])
		}
	}
}

// Three servers share runs while one thing after the other goes wrong: every run ends as it
// would have, every effect happens once, every journal is whole.
func TestServersWhileThingsFail(t *testing.T) {
	runs, rounds := 1000, 3
	if testing.Short() {
		runs, rounds = 60, 1
	}
	b := newBed(t, 0)
	b.under(runs, func() {
		for range rounds {
			b.fail("", runs/rounds/len(faults))
		}
	})
}

// The same, of what depends on time, where the clock of each server is a minute ahead of
// that of the one before.
func TestServersWhoseClocksDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	b := newBed(t, time.Minute)
	for i, m := range b.machines {
		if got, want := m.clock(), time.Duration(i-1)*time.Minute; (got - want).Abs() > 5*time.Second {
			t.Fatalf("the clock of %s is off by %s, not %s", m.name, got, want)
		}
	}
	b.under(60, func() { b.fail("cable|killed|sleeps|reset", 8) })
}

// fail has those things go wrong in turn, each for some machine, whose names a pattern
// matches, and a share of the runs be started with each. TIPSTAFF_SCALE_FAULTS is a narrower one.
func (b *bed) fail(pattern string, share int) {
	only := regexp.MustCompile(os.Getenv("TIPSTAFF_SCALE_FAULTS"))
	for _, i := range b.dice.Perm(len(faults)) {
		f, m := faults[i], b.machines[b.dice.IntN(len(b.machines))]
		if !only.MatchString(f.name) || !regexp.MustCompile(pattern).MatchString(f.name) {
			continue
		}
		began := time.Now()
		b.burst(share)
		time.Sleep(time.Duration(b.dice.IntN(2000)) * time.Millisecond)
		f.do(b, m)
		b.Logf("%s: %s, for %.0f s", m.name, f.name, time.Since(began).Seconds())
		time.Sleep(3 * time.Second)
	}
}

// under gives the servers so many runs to do while something happens, and checks all of them.
func (b *bed) under(runs int, during func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go b.answer(ctx)
	for key := range len(programs) { // undisturbed, to begin with
		b.start(key)
	}
	b.finish(time.Minute)
	if b.Failed() {
		b.Fatalf("undisturbed runs do not end as they should\n%s", b.machines[0].said())
	}
	b.left = runs
	during()
	b.burst(b.left)
	b.starting.Wait()
	began := time.Now()
	b.finish(5 * time.Minute)
	b.Logf("%d runs, of which the last ended %.0f s after the last fault; gates of calls in doubt: %v", len(b.runs), time.Since(began).Seconds(), b.doubts)
	b.verify()
	for _, m := range b.machines {
		for _, t := range m.trouble {
			b.Errorf("a server has ended by itself: %s\n%s", t, m.said())
		}
	}
}

// burst starts some of the runs that are left, a few at once, and does not wait for them.
func (b *bed) burst(runs int) {
	runs = min(runs, b.left)
	b.left -= runs
	for range runs {
		key := len(programs) + int(b.started.Add(1))
		b.starting.Go(func() {
			b.slots <- struct{}{}
			b.start(key)
			<-b.slots
		})
	}
}

// verify has the command check every run that there is, children too.
func (b *bed) verify() {
	b.Helper()
	ids, after := []string{}, ""
	for {
		var page struct {
			Items []struct {
				Run string `json:"run_id"`
			} `json:"items"`
			Next string `json:"next"`
		}
		if _, err := b.ask(b.machines[0], http.MethodGet, "/runs?limit=200"+after, nil, &page); err != nil {
			b.Fatal(err)
		}
		for _, r := range page.Items {
			ids = append(ids, r.Run)
		}
		if page.Next == "" {
			break
		}
		after = "&after=" + page.Next
	}
	var all sync.WaitGroup
	queue := make(chan string)
	for range 4 {
		all.Go(func() {
			for id := range queue {
				c := b.machines[0].command("postgres://tipstaff@"+b.primary.addr+"/postgres", "verify", id)
				if out, err := c.CombinedOutput(); err != nil {
					b.Errorf("verify %s: %v\n%s", id, err, out)
				}
			}
		})
	}
	for _, id := range ids {
		queue <- id
	}
	close(queue)
	all.Wait()
	b.Logf("%d journals verified", len(ids))
}
