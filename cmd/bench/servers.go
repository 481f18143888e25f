package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	sittingBytes = 5 << 20          // that runs in the database may add to a server
	loopsFor     = 10 * time.Second // which is long enough for all loops of a server
	takenWithin  = 25 * time.Second // of the death of a server
	shortSteps   = 3                // of a short run
	stillGrows   = 1.1              // from one number of servers to the next
)

// cluster is servers that share a database, each of which takes itself for a machine of its
// own: what is left behind by a dead process of the same machine would be found at once.
type cluster struct {
	ctx     context.Context
	binary  string
	dir     string
	address string
	servers []*site
}

func (b *bench) newCluster(ctx context.Context, d *database, name string) (*cluster, error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	c := &cluster{ctx: ctx, binary: binary, dir: filepath.Join(b.dir, name)}
	if err := errors.Join(os.Mkdir(c.dir, 0o755), os.Setenv("BENCH_ALICE", secretOf("alice"))); err != nil {
		return nil, err
	}
	c.address, err = d.create(ctx, name)
	return c, err
}

// start adds a server. All have the keys of the first.
func (c *cluster) start() error {
	host := fmt.Sprint("server", len(c.servers))
	dir := filepath.Join(c.dir, host)
	if err := newWorkspace(dir, "serve:\n  max_driving: 200\n  tokens: {alice: \"$env:BENCH_ALICE\"}\n"); err != nil {
		return err
	}
	if len(c.servers) > 0 {
		if err := os.Mkdir(filepath.Join(dir, ".tipstaff"), 0o700); err != nil {
			return err
		}
		cp := osexec.CommandContext(c.ctx, "cp", "-a", filepath.Join(c.dir, "server0", ".tipstaff", "keys"), filepath.Join(dir, ".tipstaff"))
		cp.Stderr = &strings.Builder{}
		if err := explain(cp, cp.Run()); err != nil {
			return err
		}
	}
	args := []string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, host, c.binary}
	if os.Geteuid() != 0 {
		args = append([]string{"--map-root-user"}, args...)
	}
	cmd := osexec.CommandContext(c.ctx, "unshare", append(args, serveArgs(dir)...)...)
	cmd.Env = append(os.Environ(), "TIPSTAFF_STORE="+c.address)
	d, err := awaitDaemon(cmd)
	if err != nil {
		return err
	}
	c.servers = append(c.servers, &site{daemon: d, binary: c.binary, dir: dir, ctx: c.ctx, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}})
	return nil
}

// kill ends all servers, and what they drive with them.
func (c *cluster) kill() {
	for _, s := range c.servers {
		s.http.CloseIdleConnections()
		s.kill()
	}
	c.servers = nil
}

// kill is kill -9, and waits for the end; of one that has ended, nothing.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait() // it was killed
}

// parkedInDatabase: what a server holds over a database full of runs that wait, beside one
// over an empty database.
func parkedInDatabase(ctx context.Context, b *bench, d *database) ([]row, error) {
	figure := fmt.Sprintf("memory of a server with %s parked runs in its database", count(float64(b.sitting)))
	var held [2]float64
	empty, err := b.newCluster(ctx, d, "empty")
	if err != nil {
		return nil, err
	}
	defer empty.kill()
	full, err := b.newCluster(ctx, d, "full")
	if err != nil {
		return nil, err
	}
	defer func() { full.kill() }()
	if err := full.fill(b.sitting); err != nil {
		return nil, err
	}
	for _, c := range []*cluster{empty, full} {
		if err := c.start(); err != nil {
			return nil, err
		}
	}
	time.Sleep(loopsFor)
	for i, c := range []*cluster{empty, full} {
		held[i] = c.servers[0].resident()
	}
	if held[0] == 0 {
		return []row{{figure: figure, measured: untold}}, nil
	}
	more := held[1] - held[0]
	return []row{{figure: figure, value: held[1], measured: megabytes(held[1]) + " resident",
		beside: fmt.Sprintf("over an empty one %s: %+.1f MB; both after %s", megabytes(held[0]), more/1e6, loopsFor), bound: limit("+5 MiB", more <= sittingBytes)}}, nil
}

// fill parks a run, and copies it in the database as often as wanted. Its server has ended
// then.
func (c *cluster) fill(runs int) error {
	if err := c.start(); err != nil {
		return err
	}
	s := c.servers[0]
	run, err := s.begin("alice", planOf(1, object{"id": "ok", "kind": "gate", "question": "Go on?"}))
	if err == nil {
		err = c.until(patience, func() (bool, error) {
			n, err := number(c.ctx, c.address, "SELECT count(*) FROM tipstaff.gates JOIN tipstaff.runs ON n = run WHERE holder IS NULL")
			return n == 1, err
		})
	}
	if err != nil {
		return err
	}
	c.kill()
	if err := os.RemoveAll(s.dir); err != nil { // the next server is the first again
		return err
	}
	_, err = query(c.ctx, c.address, fmt.Sprintf(copyRun, run, runs))
	return err
}

// copyRun copies a run that waits at a gate: its row, its gate and the record of that.
const copyRun = `SET search_path = tipstaff;
DO $$
DECLARE old runs; gate gates; cols text;
BEGIN
	SELECT * INTO STRICT old FROM runs WHERE id = '%s';
	SELECT * INTO STRICT gate FROM gates WHERE run = old.n;
	SELECT string_agg(quote_ident(column_name), ', ') INTO cols FROM information_schema.columns
		WHERE table_schema = 'tipstaff' AND table_name = 'runs' AND column_name NOT IN ('n', 'id', 'fold');
	EXECUTE format('INSERT INTO runs (id, fold, %%1$s) SELECT ''02'' || lpad(x::text, 24, ''0''), replace(fold, %%2$L, ''03'' || lpad(x::text, 24, ''0'')), %%1$s
		FROM runs, generate_series(1, %d) x WHERE n = %%3$s', cols, gate.id, old.n);
	INSERT INTO records SELECT new.n, k.seq, k.kind, convert_to(replace(convert_from(k.bytes, 'UTF8'), gate.id, '03' || substr(new.id, 3)), 'UTF8'), k.hash
		FROM runs new JOIN records k ON k.run = old.n AND k.seq = gate.opened WHERE new.n <> old.n;
	INSERT INTO gates (run, id, "user", kind, key, opened, opened_at, expires_at)
		SELECT new.n, '03' || substr(new.id, 3), gate."user", gate.kind, gate.key, gate.opened, gate.opened_at, gate.expires_at FROM runs new WHERE new.n <> old.n;
	INSERT INTO run_search SELECT n, id FROM runs WHERE n <> old.n;
END $$;
ANALYZE`

// manyServers: short runs a second, with more and more servers over one database.
func manyServers(ctx context.Context, b *bench, d *database) (rows []row, err error) {
	c, err := b.newCluster(ctx, d, "many")
	if err != nil {
		return nil, err
	}
	defer func() { c.kill() }()
	most, last := 0, load{}
	for _, n := range b.serving {
		for len(c.servers) < n {
			if err := c.start(); err != nil {
				return rows, err
			}
		}
		l, err := c.load(b.started)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row{figure: fmt.Sprintf("runs of %d steps, over servers that share a database: %d", shortSteps, n), value: l.runs, measured: count(l.runs) + " runs/s", beside: l.String()})
		if l.runs > last.runs*stillGrows {
			most, last = n, l
		}
	}
	bytes, err := number(ctx, c.address, "SELECT pg_database_size(current_database()) / count(*) FROM tipstaff.runs")
	return append(rows,
		row{figure: "servers with which throughput stops growing on this machine", value: float64(most), measured: strconv.Itoa(most), beside: last.limit()},
		row{figure: "what each of these runs takes in the database", value: bytes, measured: fmt.Sprintf("%.1f kB", bytes/1e3), beside: "rows, indexes, and the tables when they are empty"}), err
}

// load is what servers did and used meanwhile, a second.
type load struct {
	runs, commits           float64
	servers, database, busy float64 // cores
}

func (l load) String() string {
	return fmt.Sprintf("%s commits/s; cores: servers %.1f, Postgres %.1f, all %.1f of %d", count(l.commits), l.servers, l.database, l.busy, runtime.NumCPU())
}

// limit is what there was no more of.
func (l load) limit() string {
	if cores := float64(runtime.NumCPU()); l.busy < 0.9*cores {
		return fmt.Sprintf("limited by commits: of %g cores %.1f are busy", cores, l.busy)
	}
	return "limited by the CPU of this machine, which servers and Postgres share"
}

// load has the servers do so many short runs, a few at once for each.
func (c *cluster) load(runs int) (l load, err error) {
	postmaster, err := c.postmaster()
	if err != nil {
		return l, err
	}
	measure := func() (l load, err error) {
		l.commits, err = number(c.ctx, c.address, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
		for _, s := range c.servers {
			cpu, _ := usedBy(s.cmd.Process.Pid)
			l.servers += cpu.Seconds()
		}
		cpu, _ := supervisionOf(postmaster)
		l.database, l.busy = cpu.Seconds(), busyCores()
		return l, err
	}
	before, err := measure()
	if err != nil {
		return l, err
	}
	began, plan := time.Now(), readCalls(shortSteps)
	var turn atomic.Int64
	err = parallel(make([]struct{}, clients*len(c.servers)), func(*struct{}) error {
		for n := turn.Add(1); n <= int64(runs); n = turn.Add(1) {
			if _, err := c.servers[int(n)%len(c.servers)].begin("alice", plan); err != nil {
				if turn.Swap(int64(runs)) >= int64(runs) {
					return nil // another client has said what is wrong
				}
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.until(2*time.Minute, func() (bool, error) {
			n, err := number(c.ctx, c.address, "SELECT count(*) FROM tipstaff.runs WHERE ended IS NULL")
			return n == 0, err
		})
	}
	took := time.Since(began).Seconds()
	after, failed := measure()
	if err := errors.Join(err, failed); err != nil {
		return l, err
	}
	return load{runs: float64(runs) / took, commits: (after.commits - before.commits) / took, servers: (after.servers - before.servers) / took,
		database: (after.database - before.database) / took, busy: (after.busy - before.busy) / took}, nil
}

// postmaster is the process whose children serve the database's connections.
func (c *cluster) postmaster() (int, error) {
	pid, err := number(c.ctx, c.address, "SELECT regexp_replace(pg_read_file('postmaster.pid'), '\n.*', '')")
	return int(pid), err
}

// busyCores is for how many seconds the cores of this machine have been busy, all together.
func busyCores() float64 {
	stat, _ := os.ReadFile("/proc/stat") // this system may not tell
	var name string
	var user, nice, system float64
	_, _ = fmt.Sscan(string(stat), &name, &user, &nice, &system)
	return (user + nice + system) * clockTick.Seconds()
}

// until waits for something to be so.
func (c *cluster) until(within time.Duration, so func() (bool, error)) error {
	for began := time.Now(); time.Since(began) < within; time.Sleep(100 * time.Millisecond) {
		if done, err := so(); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("waited for %s in vain", within)
}

// deadServer: a server is killed while it drives runs; others drive all of them.
func deadServer(ctx context.Context, b *bench, d *database) ([]row, error) {
	c, err := b.newCluster(ctx, d, "dead")
	if err != nil {
		return nil, err
	}
	defer func() { c.kill() }()
	for range 3 {
		if err := c.start(); err != nil {
			return nil, err
		}
	}
	victim, other := c.servers[0], c.servers[1]
	runs := make([]string, b.kill)
	for i := range runs {
		if runs[i], err = victim.begin("alice", slowCalls(200, time.Second)); err != nil {
			return nil, err
		}
	}
	pid := victim.cmd.Process.Pid
	driven := func(by func(int) bool) func() (bool, error) {
		left := runs
		return func() (bool, error) {
			for len(left) > 0 {
				owner, err := other.owner("alice", left[0])
				if err != nil || !by(owner) {
					return false, err
				}
				left = left[1:]
			}
			return true, nil
		}
	}
	if err := c.until(time.Minute, driven(func(owner int) bool { return owner == pid })); err != nil {
		return nil, fmt.Errorf("the runs are not driven: %w", err)
	}
	began := time.Now()
	victim.kill()
	if err := c.until(2*takenWithin, driven(func(owner int) bool { return owner != 0 && owner != pid })); err != nil {
		return nil, fmt.Errorf("the dead server's runs are not driven again: %w", err)
	}
	took := time.Since(began)
	return []row{{figure: fmt.Sprintf("a server dies, until its %d runs are all driven by others", b.kill), value: took.Seconds(), measured: fmt.Sprintf("%.1f s", took.Seconds()),
		beside: "of which 13 s pass until it is missed", bound: goal("< "+takenWithin.String(), took < takenWithin)}}, nil
}

// owner is the process that drives a run; 0: none does.
func (s *site) owner(user, run string) (int, error) {
	res, err := s.request(s.ctx, user, "GET", "/runs/"+run, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var got struct {
		Status string `json:"status"`
		Owner  struct {
			Pid int `json:"pid"`
		} `json:"owner"`
	}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || got.Status != "running" {
		return 0, err
	}
	return got.Owner.Pid, nil
}
