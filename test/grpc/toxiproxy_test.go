package grpc

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// proxy stands between a client and the daemon, and can be told to fail.
type proxy struct {
	t    *testing.T
	api  string
	addr string
}

// badNetwork starts toxiproxy in front of the daemon.
func badNetwork(t *testing.T, d *daemon) *proxy {
	t.Helper()
	program := installed(t, "bin", "toxiproxy-server")
	control, listen := freeAddress(t), freeAddress(t)
	host, port, err := net.SplitHostPort(control)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-host", host, "-port", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it holds nothing
		_ = cmd.Wait()
	})
	p := &proxy{t: t, api: "http://" + control, addr: listen}
	deadline := time.Now().Add(30 * time.Second)
	for { // it says nowhere that it listens
		if conn, err := net.DialTimeout("tcp", control, time.Second); err == nil {
			conn.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	p.ask(http.MethodPost, "/proxies", map[string]any{"name": "daemon", "listen": listen, "upstream": d.addr, "enabled": true})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (p *proxy) ask(method, path string, body any) {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequest(method, p.api+path, bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		p.t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
}

// fail has the connection fail in a way that toxiproxy knows.
func (p *proxy) fail(kind, direction string, how map[string]any) {
	p.t.Helper()
	p.ask(http.MethodPost, "/proxies/daemon/toxics", map[string]any{"name": "fault", "type": kind, "stream": direction, "toxicity": 1, "attributes": how})
}

func (p *proxy) mend() {
	p.t.Helper()
	p.ask(http.MethodDelete, "/proxies/daemon/toxics/fault", nil)
}

func TestLatency(t *testing.T) {
	t.Parallel()
	d := serve(t)
	p := badNetwork(t, d)
	p.fail("latency", "downstream", map[string]any{"latency": 100, "jitter": 50})
	far := d.client(p.addr)
	env := far.create("loop")
	seen := far.execute(far.ctx(), env)
	if err := seen.rest(); err != nil {
		t.Fatal(err)
	}
	near := d.client(d.addr).watch(env, 0)
	if err := near.rest(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(story(near.events...), story(seen.events...)); diff != "" {
		t.Error(diff)
	}
}

// However a connection is lost in the middle of a run, that is the caller's loss alone:
// the run goes on to its end, and the caller misses nothing when it comes back.
func TestConnectionsThatAreLost(t *testing.T) {
	for _, fault := range []struct {
		name, kind string
		how        map[string]any
		code       codes.Code
	}{
		{"reset", "reset_peer", map[string]any{"timeout": 0}, codes.Unavailable},
		// Nothing arrives, and nobody hears why: only the caller's own deadline ends it.
		{"half open", "timeout", map[string]any{"timeout": 0}, codes.DeadlineExceeded},
		{"closed after some bytes", "limit_data", map[string]any{"bytes": 300}, codes.Unavailable},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			d := serve(t)
			p := badNetwork(t, d)
			far := d.client(p.addr)
			env := far.create("slow")
			ctx, cancel := context.WithTimeout(far.ctx(), 4*time.Second)
			defer cancel()
			seen := far.execute(ctx, env)
			if err := seen.next(3); err != nil {
				t.Fatal(err)
			}
			p.fail(fault.kind, "downstream", fault.how)
			if err := seen.rest(); status.Code(err) != fault.code {
				t.Errorf("the stream ended with %v, not %s", err, fault.code)
			}
			p.mend()
			back := d.client(p.addr) // as whoever comes back: by a new connection
			after := back.watch(env, seen.last())
			if err := after.rest(); err != nil {
				t.Fatal(err)
			}
			near := d.client(d.addr).watch(env, 0)
			if err := near.rest(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(story(near.events...), story(append(seen.events, after.events...)...)); diff != "" {
				t.Errorf("something was missed, or told twice (-held +read):\n%s", diff)
			}
			wantSlow(t, near.events)
		})
	}
}

// A caller whose connection is gone for good cancels nothing.
func TestNobodyIsLeftToWatch(t *testing.T) {
	t.Parallel()
	d := serve(t)
	p := badNetwork(t, d)
	far := d.client(p.addr)
	env := far.create("slow")
	seen := far.execute(far.ctx(), env)
	if err := seen.next(2); err != nil {
		t.Fatal(err)
	}
	p.ask(http.MethodDelete, "/proxies/daemon", nil)
	if err := seen.rest(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	near := d.client(d.addr).watch(env, 0)
	if err := near.rest(); err != nil {
		t.Fatal(err)
	}
	wantSlow(t, near.events)
}
