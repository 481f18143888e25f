package supervisor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/flow"
)

// dialer connects to the address in its environment as it is told to, says so, and stays.
func dialer() {
	switch os.Getenv("HOW") {
	case "gone":
		_ = unix.Close(connected())
	case "given on": // to a process of its own, and then it ends
		cmd := exec.Command("/bin/sleep", "1000")
		cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(connected()), "")}
		if cmd.Start() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case "of one thread":
		time.Sleep(time.Millisecond) // the runtime makes the descriptors of its own with the first timer: all threads must have them
		ready := make(chan bool)
		var apart func()
		apart = func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() { // the table of the first thread is that of the process
				go apart()
				select {}
			}
			if unix.Unshare(unix.CLONE_FILES) != nil {
				os.Exit(1)
			}
			connected()
			close(ready)
			linger()
		}
		go apart()
		<-ready
	case "on its way":
		fd := connected()
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil || unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0) != nil {
			os.Exit(1)
		}
		_ = unix.Close(fd)
	default:
		connected()
	}
	fmt.Println("connected")
	_ = os.Stdout.Close()
	linger()
}

// connected is a socket that the runtime knows nothing of.
func connected() int {
	network, addr, _ := strings.Cut(os.Getenv("DIAL"), " ")
	family, to := unix.AF_UNIX, unix.Sockaddr(&unix.SockaddrUnix{Name: addr})
	if network == "tcp" {
		at := netip.MustParseAddrPort(addr)
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil || unix.Connect(fd, to) != nil {
		os.Exit(1)
	}
	return fd
}

// Whoever a run has started is known at the other end of a connection, whatever it does to its
// environment, its session and the connection; where that cannot be told there is doubt.
func TestTheOtherEndOfAConnection(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"tcp", "unix"} {
		addr := "127.0.0.1:0"
		if network == "unix" {
			addr = filepath.Join(t.TempDir(), "socket")
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		dial := " DIAL='" + network + " " + l.Addr().String() + "' " + roleVar + "=dialer "
		for name, c := range map[string]struct {
			how  string
			want string
		}{
			"as it was started":      {"env" + dial + self, "[RUN]"},
			"without an environment": {"env -i" + dial + self, "[RUN]"},
			"in another session":     {"setsid -w env -i" + dial + self, "[RUN]"},
			"without parents":        {"(setsid env -i" + dial + self + " &); exec sleep 1000", "[RUN]"},
			"gone":                   {"env -i HOW=gone" + dial + self, map[string]string{"tcp": "doubt", "unix": "[RUN]"}[network]},
			"given to a child":       {"env -i HOW='given on'" + dial + self + "; echo connected; exec sleep 1000", map[string]string{"tcp": "[RUN]", "unix": "doubt"}[network]},
			"of one thread":          {"env -i HOW='of one thread'" + dial + self, "[RUN]"},
			"on its way":             {"env -i HOW='on its way'" + dial + self, map[string]string{"tcp": "doubt", "unix": "[RUN]"}[network]},
		} {
			t.Run(network+" "+name, func(t *testing.T) {
				p, err := Spawn(reaped(c.how, Markers("RUN", "LAUNCH")...))
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				defer p.Stop(0)
				go io.Copy(io.Discard, p.Stderr())
				said := make([]byte, 100)
				conn, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if n, err := p.Stdout().Read(said); string(said[:n]) != "connected\n" {
					t.Fatalf("it says %q, %v", said[:n], err)
				}
				if name == "gone" {
					_, _ = io.Copy(io.Discard, conn)
				}
				if got := peerText(PeerOf(conn, noOwners)); got != c.want {
					t.Errorf("it is %s, want %s", got, c.want)
				}
			})
		}
		t.Run(network+" of somebody else", func(t *testing.T) {
			p, err := Spawn(reaped("env -i "+roleVar+"=deaf "+self, Markers("RUN", "LAUNCH")...))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			defer p.Stop(0)
			_, _ = p.Stdout().Read(make([]byte, 100))
			mine, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer mine.Close()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := peerText(PeerOf(conn, noOwners)); got != "somebody else" {
				t.Errorf("it is %s", got)
			}
			if got := peerText(PeerOf(conn, func() ([]flow.Owner, error) { return nil, errors.New("the store is away") })); got != "doubt" {
				t.Errorf("with no store it is %s", got)
			}
		})
	}
}

func noOwners() ([]flow.Owner, error) { return nil, nil }

func peerText(p Peer) string {
	switch {
	case p.Program:
		return fmt.Sprint(p.Runs)
	case p.Doubt:
		return "doubt"
	}
	return "somebody else"
}

// Where the kernel does not answer for one socket, the list of all has it, under both families.
func TestASocketIsFoundInTheList(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skipf("there is no address %s here: %v", addr, err)
		}
		defer l.Close()
		mine, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer mine.Close()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		own, other, here := ends(conn)
		asked, found := diagnosed(other, own)
		if inode := listed(other, own); !here || inode == 0 || found && asked != inode {
			t.Errorf("%s: here %v, inode %d in the list, %d by itself (%v)", addr, here, inode, asked, found)
		}
	}
}

// BenchmarkPeerOf is what a connection of somebody else costs while a run has a program.
func BenchmarkPeerOf(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p, err := Spawn(reaped(roleVar+"=deaf "+self, Markers("RUN", "LAUNCH")...))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	defer p.Stop(0)
	_, _ = p.Stdout().Read(make([]byte, 100))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	mine, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer mine.Close()
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for b.Loop() {
		PeerOf(conn, noOwners)
	}
}
