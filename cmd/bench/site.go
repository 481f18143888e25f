package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	sameLimit  = 5 * time.Millisecond   // from a record to a subscriber of the process that wrote it
	otherLimit = 250 * time.Millisecond // of another process
	slowdown   = 1.05                   // of a run that many follow
	leastHTTP  = 0.5                    // of the starts in process
	turnLimit  = 2 * time.Second        // until another user's run is driven
	idleBytes  = 40e6                   // of a daemon
	clients    = 8                      // that start runs at once
)

// measureSite: the daemon over HTTP.
func measureSite(ctx context.Context, b *bench) (_ []row, err error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "site")
	if err := newWorkspace(dir, "serve:\n  tokens: {alice: \"$env:BENCH_ALICE\", bob: \"$env:BENCH_BOB\", admin: {token: \"$env:BENCH_ADMIN\", scopes: [admin]}}\n"); err != nil {
		return nil, err
	}
	for _, name := range []string{"alice", "bob", "admin"} {
		if err := os.Setenv("BENCH_"+strings.ToUpper(name), secretOf(name)); err != nil {
			return nil, err
		}
	}
	d, err := startDaemon(ctx, binary, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	s := &site{daemon: d, binary: binary, dir: dir, ctx: ctx,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	defer s.http.CloseIdleConnections()
	for _, measure := range []func(*bench) ([]row, error){s.idle, s.delays, s.crowd, s.starts, s.fair} {
		rows, err := measure(b)
		b.add(rows...)
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// site is a daemon whose routes are called.
type site struct {
	*daemon
	binary, dir string
	ctx         context.Context
	http        *http.Client
}

func secretOf(user string) string { return user + "-of-the-bench-0123456789" }

// secretOf is the token of a user; of nobody, the one that the daemon made.
func (s *site) secretOf(user string) string {
	if user == "" {
		return s.token
	}
	return secretOf(user)
}

// request makes a call as a user.
func (s *site) request(ctx context.Context, user, method, path string, body any) (*http.Response, error) {
	var text io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.site+path, text)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.secretOf(user))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasSuffix(path, "/events") || strings.Contains(path, "/events?") {
		req.Header.Set("Accept", "text/event-stream")
	}
	res, err := s.http.Do(req)
	if err == nil && res.StatusCode >= 400 {
		said, _ := io.ReadAll(res.Body)
		err = errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, res.Status, said), res.Body.Close())
	}
	return res, err
}

// begin starts a program as a user.
func (s *site) begin(user string, plan []byte) (string, error) {
	res, err := s.request(s.ctx, user, "POST", "/runs", object{"program": string(plan)})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var got struct {
		Run string `json:"run"`
	}
	return got.Run, json.NewDecoder(res.Body).Decode(&got)
}

// idle: what the daemon holds when nothing has been asked of it.
func (s *site) idle(*bench) ([]row, error) {
	time.Sleep(idleFor)
	held := map[string]float64{}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)) // this system may not tell
	for line := range strings.Lines(string(status)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(value, "kB\n") {
			kB, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB\n")), 64)
			held[name] = kB * 1024
		}
	}
	all := held["VmRSS"]
	if all == 0 {
		return []row{{figure: "the daemon, idle", measured: untold}}, nil
	}
	return []row{{figure: "the daemon, idle", value: all, measured: megabytes(all) + " resident",
		beside: fmt.Sprintf("%s of it its own, the rest the program as it lies on the disk", megabytes(held["RssAnon"])), bound: goal("< 40 MB", all < idleBytes)}}, nil
}

// slowCalls is a plan of so many calls, each of which sleeps for a while.
func slowCalls(n int, each time.Duration) []byte {
	return toolCalls(n, "mcp://builtin/sleep@1.0.0", object{"duration": each.String()})
}

// delays: from a record to whoever follows the run, whether the daemon drives it or
// another process.
func (s *site) delays(b *bench) (rows []row, err error) {
	plan := slowCalls(b.followed, 5*time.Millisecond)
	for _, c := range []struct {
		who   string
		limit time.Duration
		begin func() (string, func() error, error)
	}{
		{"the daemon", sameLimit, func() (string, func() error, error) {
			run, err := s.begin("alice", plan)
			return run, func() error { return nil }, err
		}},
		{"another process", otherLimit, func() (string, func() error, error) { return s.beside(plan) }},
	} {
		run, wait, err := c.begin()
		if err != nil {
			return nil, err
		}
		user := "alice"
		if c.who != "the daemon" {
			user = "admin"
		}
		late, err := s.follow(user, run)
		if err == nil && len(late) == 0 {
			err = fmt.Errorf("run %s: nothing was followed", run)
		}
		if err = errors.Join(err, wait()); err != nil {
			return nil, err
		}
		mid := median(late)
		worst := late[len(late)*99/100]
		rows = append(rows, row{figure: "a record of " + c.who + ", until an SSE client has it", value: mid, measured: fmt.Sprintf("%.2f ms, p99 %.1f ms", mid*1e3, worst*1e3),
			beside: fmt.Sprintf("of %s, from the time that it carries", count(float64(len(late)))), bound: goal("< "+milliseconds(c.limit), mid < c.limit.Seconds())})
	}
	return rows, nil
}

// beside starts a run in a process of its own, and returns when there is one.
func (s *site) beside(plan []byte) (run string, wait func() error, err error) {
	c := osexec.CommandContext(s.ctx, s.binary, "run", "-", "--json", "--workspace", s.dir, "--unattended")
	c.Stdin, c.Stderr = bytes.NewReader(plan), &strings.Builder{}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return "", nil, err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadBytes('\n')
	var e struct {
		Run string `json:"run"`
	}
	if err == nil {
		err = json.Unmarshal(first, &e)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, lines)
	}()
	return e.Run, func() error { <-done; return explain(c, c.Wait()) }, err
}

// follow reads the stream of a run to its end, and tells how late each record came that
// was written while it was followed.
func (s *site) follow(user, run string) (late []float64, err error) {
	res, err := s.request(s.ctx, user, "GET", "/runs/"+run+"/events", nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	began := time.Now()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		now := time.Now()
		var e struct{ At time.Time }
		if json.Unmarshal([]byte(data), &e) == nil && e.At.After(began) {
			late = append(late, now.Sub(e.At).Seconds())
		}
	}
	return late, lines.Err()
}

// crowd: what it costs a run that many follow, every tenth of whom reads nothing.
func (s *site) crowd(b *bench) ([]row, error) {
	plan := slowCalls(b.followed, 5*time.Millisecond)
	took := func(subscribers int) (float64, error) {
		run, err := s.begin("alice", plan)
		if err != nil {
			return 0, err
		}
		ctx, leave := context.WithCancel(s.ctx)
		defer leave()
		var lost atomic.Int64
		err = parallel(make([]struct{}, min(subscribers, 50)), func(*struct{}) error {
			for range subscribers / min(subscribers, 50) {
				if err := s.subscribe(ctx, run, &lost); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		if _, err := s.follow("alice", run); err != nil {
			return 0, err
		}
		return s.wall("alice", run)
	}
	var alone, followed []float64
	for range b.rounds {
		a, err := took(0)
		if err != nil {
			return nil, err
		}
		f, err := took(b.crowding)
		if err != nil {
			return nil, err
		}
		alone, followed = append(alone, a), append(followed, f)
	}
	r := median(followed) / median(alone)
	return []row{{figure: fmt.Sprintf("a run that %s follow over SSE, a tenth of them reading nothing", count(float64(b.crowding))), value: r, measured: times(r),
		beside: fmt.Sprintf("the time that it takes alone, %.2f s", median(alone)), bound: goal("< 1.05 ×", r < slowdown)}}, nil
}

// subscribe follows a run until ctx ends; every tenth subscriber reads nothing.
func (s *site) subscribe(ctx context.Context, run string, n *atomic.Int64) error {
	deaf := n.Add(1)%10 == 0
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.site)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET /runs/%s/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", run, s.site, secretOf("alice"))
	if err == nil && !deaf {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	return err
}

// wall is how long a run of a user was driven.
func (s *site) wall(user, run string) (float64, error) {
	res, err := s.request(s.ctx, user, "GET", "/runs/"+run+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var m tipstaff.RunMetrics
	err = json.NewDecoder(res.Body).Decode(&m)
	return m.ActiveS, err
}

// starts: how many runs a second are started over HTTP, beside as many in this process.
func (s *site) starts(b *bench) ([]row, error) {
	plan := readCalls(1)
	local, err := freshWorkspace(localUser(s.ctx), filepath.Join(b.dir, "starts"))
	if err != nil {
		return nil, err
	}
	rate := func(start func() error) (float64, error) {
		var turn atomic.Int64
		began := time.Now()
		err := parallel(make([]struct{}, clients), func(*struct{}) error {
			for turn.Add(1) <= int64(b.started) {
				if err := start(); err != nil {
					return err
				}
			}
			return nil
		})
		return float64(b.started) / time.Since(began).Seconds(), err
	}
	var far, near []float64
	for range max(1, b.rounds/2) {
		n, err := rate(func() error {
			_, err := local.Start(localUser(s.ctx), tipstaff.StartRequest{Program: plan, Name: "bench.json"})
			return err
		})
		local.Drain()
		if err != nil {
			return nil, errors.Join(err, local.close())
		}
		f, err := rate(func() error { _, err := s.begin("alice", plan); return err })
		if err == nil {
			err = s.quiet()
		}
		if err != nil {
			return nil, errors.Join(err, local.close())
		}
		near, far = append(near, n), append(far, f)
	}
	r := median(far) / median(near)
	return []row{{figure: count(float64(b.started)) + " starts over HTTP, starts a second", value: median(far), measured: count(median(far)),
		beside: fmt.Sprintf("in process %s", count(median(near))), bound: limit("≥ 0.5 ×: "+times(r), r >= leastHTTP)}}, local.close()
}

// quiet returns when the daemon drives nothing.
func (s *site) quiet() error {
	for {
		res, err := s.request(s.ctx, "alice", "GET", "/healthz", nil)
		if err != nil {
			return err
		}
		var h struct {
			Driven int `json:"in_flight"`
			Queued int `json:"queued"`
		}
		if err := errors.Join(json.NewDecoder(res.Body).Decode(&h), res.Body.Close()); err != nil || h.Driven+h.Queued == 0 {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// fair: one user has 64 runs hang; how long another waits for its run to be driven.
func (s *site) fair(b *bench) ([]row, error) {
	hanging := slowCalls(1, time.Minute)
	for range 64 {
		if _, err := s.begin("alice", hanging); err != nil {
			return nil, err
		}
	}
	var all []float64
	for range b.effort.starts {
		began := time.Now()
		run, err := s.begin("bob", readCalls(1))
		if err != nil {
			return nil, err
		}
		if _, err := s.follow("bob", run); err != nil {
			return nil, err
		}
		all = append(all, time.Since(began).Seconds())
	}
	slices.Sort(all)
	worst := all[len(all)-1]
	return []row{{figure: "one user's 64 runs hang: another's is driven to its end after", value: worst, measured: milliseconds(time.Duration(worst * float64(time.Second))),
		beside: fmt.Sprintf("the slowest of %d", len(all)), bound: goal("< 2 s", worst < turnLimit.Seconds())}}, nil
}
