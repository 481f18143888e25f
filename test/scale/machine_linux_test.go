package scale

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// network is the part of 198.18.0.0/15, which is for tests, that this process uses: its
// first address is that of the database and of all that machines reach.
type network struct{ n int }

func (n network) host() string                { return fmt.Sprintf("198.18.%d.1", n.n) }
func (n network) gateway(i int) string        { return fmt.Sprintf("198.19.%d.%d", n.n, 4*i+1) }
func (n network) machine(i int) string        { return fmt.Sprintf("198.19.%d.%d", n.n, 4*i+2) }
func (n network) device(i int, e rune) string { return fmt.Sprintf("ts%d-%d%c", n.n, i, e) }

// newNetwork gives this process the address that machines reach, or skips the test.
func newNetwork(t *testing.T) network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces, addresses and mounts are root's to make")
	}
	n := network{os.Getpid() % 250}
	if out, err := exec.Command("ip", "addr", "add", n.host()+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Skipf("no address can be added here: %v %s", err, out)
	}
	t.Cleanup(func() { ip(t, "addr", "del", n.host()+"/32", "dev", "lo") })
	// Else the way to a machine without its cable leads to wherever this one is connected.
	ip(t, "route", "add", "unreachable", fmt.Sprintf("198.19.%d.0/24", n.n), "metric", "9999")
	t.Cleanup(func() { ip(t, "route", "del", "unreachable", fmt.Sprintf("198.19.%d.0/24", n.n), "metric", "9999") })
	return n
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v %s", strings.Join(args, " "), err, out)
	}
}

// machine is one to the others: it has a name and a network of its own, a folder and, if
// need be, a clock that is off.
type machine struct {
	*testing.T
	name   string
	addr   string // of its server
	link   string // the near end of its cable
	dir    string
	store  string // its address, as this machine has it
	engine string // the same of Temporal's; "": servers schedule drives themselves
	skew   time.Duration
	thread chan func() // runs functions on the thread that is in its namespaces

	making sync.RWMutex // held while a run is made here
	odd    bool         // runs that are made here could be driven nowhere else

	mu      sync.Mutex
	server  *exec.Cmd
	ended   chan struct{}
	log     *os.File
	trouble []string // how servers ended that had begun to serve, and nobody told to end
}

func newMachine(t *testing.T, n network, i int) *machine {
	t.Helper()
	m := &machine{T: t, name: fmt.Sprint("machine", i), addr: n.machine(i) + ":8080", link: n.device(i, 'a'), thread: make(chan func())}
	m.dir = filepath.Join(t.TempDir(), m.name)
	m.must(os.Mkdir(m.dir, 0o755))
	log, err := os.Create(filepath.Join(filepath.Dir(m.dir), m.name+".log"))
	m.must(err)
	m.log = log
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: it ends with its goroutine
		err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS)
		if err == nil {
			err = unix.Sethostname([]byte(m.name))
		}
		ready <- err
		for f := range m.thread {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	t.Cleanup(func() {
		m.kill()
		close(m.thread)
	})
	far := n.device(i, 'b')
	ip(t, "link", "add", m.link, "type", "veth", "peer", "name", far)
	t.Cleanup(func() { ip(t, "link", "del", m.link) })
	var task string
	m.on(func() { task = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid()) })
	ip(t, "link", "set", far, "netns", task)
	ip(t, "addr", "add", n.gateway(i)+"/30", "dev", m.link)
	ip(t, "link", "set", m.link, "up")
	m.on(func() {
		ip(t, "addr", "add", n.machine(i)+"/30", "dev", far)
		ip(t, "link", "set", "lo", "up")
		ip(t, "link", "set", far, "up")
		ip(t, "route", "add", "default", "via", n.gateway(i))
	})
	return m
}

func (m *machine) must(err error) {
	if err != nil {
		m.Helper()
		m.Fatal(err)
	}
}

// on runs a function where the machine is.
func (m *machine) on(f func()) {
	done := make(chan struct{})
	m.thread <- func() { defer close(done); f() }
	<-done
}

// unplug takes the cable out, or puts it back.
func (m *machine) unplug(out bool) {
	ip(m.T, "link", "set", m.link, map[bool]string{true: "down", false: "up"}[out])
}

// command is the product's binary on this machine.
func (m *machine) command(store string, args ...string) *exec.Cmd {
	m.Helper()
	binary, err := cmdtest.Released()
	m.must(err)
	c := exec.Command(binary, args...)
	c.Dir = m.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir, "TMPDIR=" + os.TempDir(), "TIPSTAFF_TRUST=1", "TIPSTAFF_STORE=" + store, "SERVE_TOKEN=" + token}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return c
}

// serve starts the server, and again whenever it ends by itself, as what looks after a
// server would, until it is killed.
func (m *machine) serve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
}

// begin is serve. Called with mu held.
func (m *machine) begin() {
	c := m.command(m.store, "serve", "--addr", m.addr, "--grpc-addr", strings.TrimSuffix(m.addr, "8080")+"50051", "--allow-plaintext", "--no-page", "--shutdown-timeout", "5s", "--json")
	if m.engine != "" {
		c.Args = append(c.Args, "--engine", m.engine)
	}
	c.Stdout, c.Stderr = m.log, m.log
	said, err := m.log.Seek(0, io.SeekCurrent)
	m.must(err)
	m.on(func() {
		c.SysProcAttr.Ptrace = m.skew != 0
		if err = c.Start(); err == nil && m.skew != 0 {
			err = setClock(c.Process.Pid, m.skew)
		}
	})
	m.must(err)
	ended := make(chan struct{})
	m.server, m.ended = c, ended
	go func() {
		err := c.Wait()
		close(ended)
		time.Sleep(time.Second)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.server != c { // it was told to
			return
		}
		if m.listened(said) { // else what it needs was not there
			m.trouble = append(m.trouble, fmt.Sprint(m.name, ": ", err))
		}
		m.begin()
	}()
}

// signal sends the server a signal, if it is there.
func (m *machine) signal(s syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server != nil {
		_ = m.server.Process.Signal(s) // it may have ended
	}
}

// kill is kill -9, and waits for the end.
func (m *machine) kill() {
	m.mu.Lock()
	c, ended := m.server, m.ended
	m.server = nil
	m.mu.Unlock()
	if c != nil {
		_ = c.Process.Kill() // it may have ended
		<-ended
	}
}

// clock is by how much the server's clock is ahead of ours.
func (m *machine) clock() time.Duration {
	m.Helper()
	told, err := http.ParseTime(m.awaitHealth(10 * time.Second))
	m.must(err)
	return time.Until(told)
}

// awaitHealth waits until the server answers, and returns when it says that it did.
func (m *machine) awaitHealth(within time.Duration) (date string) {
	m.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(m.Context(), time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.addr+"/healthz", nil)
		m.must(err)
		resp, err := http.DefaultClient.Do(req)
		cancel()
		if err == nil {
			resp.Body.Close()
			return resp.Header.Get("Date")
		}
		if time.Now().After(deadline) {
			m.Fatalf("%s does not answer: %v\n%s", m.name, err, m.said())
		}
	}
}

// listened reports whether a server has told where it listens, in what was said since.
func (m *machine) listened(since int64) bool {
	text, err := os.ReadFile(m.log.Name())
	return err != nil || bytes.Contains(text[since:], []byte(`"grpc_addr":`))
}

// said is the end of what its servers have said.
func (m *machine) said() string {
	text, err := os.ReadFile(m.log.Name())
	m.must(err)
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// drain tells the server to end, and waits until it has.
func (m *machine) drain() {
	m.mu.Lock()
	c, ended := m.server, m.ended
	m.server = nil
	m.mu.Unlock()
	if c == nil {
		return
	}
	_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
	<-ended
	if code := c.ProcessState.ExitCode(); code != 0 {
		m.Errorf("%s ended with code %d", m.name, code)
	}
}
