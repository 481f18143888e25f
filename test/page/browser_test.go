package page_test

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ground is a daemon, a real process, over the files of testdata/ground. Scripts in a browser look
// at it.
type ground struct {
	*testing.T
	dir, addr, binary string
	page              string // where it is
	daemon            *exec.Cmd
}

func newGround(t *testing.T) *ground {
	t.Helper()
	if os.Getenv("TIPSTAFF_WEB") == "" {
		t.Skip("make test-web tries the page in a browser")
	}
	_ = os.Setenv("TIPSTAFF_TRUST", "1") // nobody is asked about the folders of tests
	g := &ground{T: t, dir: t.TempDir(), binary: os.Getenv("TIPSTAFF_BINARY")}
	if err := os.CopyFS(g.dir, os.DirFS("testdata/ground")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	g.serve()
	t.Cleanup(g.stop)
	return g
}

// serve starts the daemon, and waits until it listens.
func (g *ground) serve() {
	g.Helper()
	g.daemon = exec.Command(g.binary, "serve", "--addr", g.addr, "--grpc-addr", "127.0.0.1:0", "--shutdown-timeout", "5s")
	g.daemon.Dir = g.dir
	out, err := g.daemon.StdoutPipe()
	if err == nil {
		err = g.daemon.Start()
	}
	if err != nil {
		g.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		g.Fatal("the daemon does not listen")
	}
	ask := exec.Command(g.binary, "serve", "--link", "--addr", g.addr)
	ask.Dir = g.dir
	link, err := ask.Output()
	if err != nil {
		g.Fatal(err)
	}
	g.page, _, _ = strings.Cut(string(link), "/ui/")
}

func (g *ground) stop() {
	_ = g.daemon.Process.Signal(syscall.SIGTERM)
	_ = g.daemon.Wait() // also for one that was killed
}

// script runs a scenario to its end.
func (g *ground) script(name string, env ...string) {
	g.Helper()
	modules, err := filepath.Abs("../../.cache/web")
	if err != nil {
		g.Fatal(err)
	}
	node := exec.Command("node", filepath.Join("browser", name))
	node.Env = append(append(os.Environ(), "TIPSTAFF_PAGE="+g.page, "TIPSTAFF_FOLDER="+g.dir, "TIPSTAFF_MODULES="+modules, "TIPSTAFF_CHROMIUM=/usr/bin/chromium"), env...)
	var said bytes.Buffer
	node.Stdout, node.Stderr = &said, &said
	if err := node.Start(); err != nil {
		g.Fatal(err)
	}
	defer time.AfterFunc(patience(), func() { _ = node.Process.Kill() }).Stop()
	if err := node.Wait(); err != nil {
		g.Errorf("%s: %v\n%s", name, err, said.Bytes())
		return
	}
	g.Logf("%s: %s", name, said.Bytes())
}

// patience is how long a script may take: longer where everything is tried more often, or longer.
func patience() time.Duration {
	tries, _ := strconv.Atoi(os.Getenv("TIPSTAFF_WEB_TRIES")) // by default there are few
	flood, _ := strconv.Atoi(os.Getenv("TIPSTAFF_FLOOD_SECONDS"))
	return 8*time.Minute + time.Duration(5*tries+flood)*time.Second
}

// asked does what a script asks for by a file, once.
func (g *ground) asked(what string, do func()) {
	g.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(g.dir, what+".asked")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			g.Errorf("the script never asks to %s", what)
			return
		}
	}
	do()
	if err := os.WriteFile(filepath.Join(g.dir, what+".done"), nil, 0o644); err != nil {
		g.Error(err)
	}
}

func TestBrowserLive(t *testing.T)   { newGround(t).script("live.mjs") }
func TestBrowserStolen(t *testing.T) { newGround(t).script("stolen.mjs") }
func TestBrowserDecide(t *testing.T) { newGround(t).script("decide.mjs") }
func TestBrowserInbox(t *testing.T)  { newGround(t).script("inbox.mjs") }
func TestBrowserHaste(t *testing.T)  { newGround(t).script("haste.mjs") }
func TestBrowserHands(t *testing.T)  { newGround(t).script("hands.mjs") }
func TestBrowserKilled(t *testing.T) { newGround(t).script("killed.mjs") }

func TestBrowserRestart(t *testing.T) {
	g := newGround(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.asked("stop", g.stop)
		g.asked("start", g.serve)
	}()
	g.script("restart.mjs")
	if !t.Failed() {
		<-done
	}
}

// With TIPSTAFF_SHOTS every page is drawn into that folder.
func TestBrowserPages(t *testing.T) { newGround(t).script("pages.mjs") }

func TestBrowserEveryone(t *testing.T) { newGround(t).script("everyone.mjs") }
func TestBrowserKeyboard(t *testing.T) { newGround(t).script("keyboard.mjs") }
func TestBrowserNoScript(t *testing.T) { newGround(t).script("noscript.mjs") }
func TestBrowserHostile(t *testing.T)  { newGround(t).script("hostile.mjs") }

// The page needs no network: it works in a namespace that has nothing but its own loopback.
func TestBrowserAlone(t *testing.T) {
	if os.Getenv("TIPSTAFF_WEB") == "" {
		t.Skip("make test-web tries the page in a browser")
	}
	alone := func(command ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--map-root-user", "--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`}, command...)...)
	}
	if said, err := alone("true").CombinedOutput(); err != nil {
		t.Skipf("there are no empty network namespaces here: %v, %s", err, said)
	}
	if said, err := alone("ip", "route", "show", "table", "main").CombinedOutput(); err != nil || len(said) > 0 {
		t.Fatalf("the namespace leads somewhere: %v, %s", err, said)
	}
	said, err := alone(os.Args[0], "-test.v", "-test.run", "^TestBrowser(Live|NoScript)$").CombinedOutput()
	if err != nil || bytes.Count(said, []byte("--- PASS")) != 2 {
		t.Errorf("%v\n%s", err, said)
	}
}
