package scale

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// database is a Postgres server on a disk of its own.
type database struct {
	*testing.T
	bin, disk, addr string
	as              *syscall.Credential
	process
}

// diskSize is enough for all runs, and little to fill.
const diskSize = 1200 << 20

// newDatabase makes the disk of a server that is yet to be filled and started.
func newDatabase(t *testing.T, name string) *database {
	t.Helper()
	bin := os.Getenv("TIPSTAFF_POSTGRES_BIN")
	if bin == "" {
		t.Skip("TIPSTAFF_POSTGRES_BIN is not set: make test-scale runs this")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &database{T: t, bin: bin, addr: l.Addr().String(), disk: filepath.Join(t.TempDir(), name), as: &syscall.Credential{}}
	owner, err := user.Lookup("postgres")
	if err != nil {
		t.Skipf("root cannot run Postgres, and nobody else is there for it: %v", err)
	}
	d.as.Uid, d.as.Gid = number(owner.Uid), number(owner.Gid)
	d.must(os.Mkdir(d.disk, 0o755))
	for dir := d.disk; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		d.must(os.Chmod(dir, 0o755)) // tests' folders are their user's alone
	}
	if err := unix.Mount("tmpfs", d.disk, "tmpfs", 0, fmt.Sprintf("size=%d,uid=%d,gid=%d", diskSize, d.as.Uid, d.as.Gid)); err != nil {
		t.Skipf("no disk can be made here: %v", err)
	}
	t.Cleanup(func() {
		d.kill()
		if err := unix.Unmount(d.disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

func number(s string) uint32 {
	n, _ := strconv.ParseUint(s, 10, 32)
	return uint32(n)
}

func (d *database) must(err error) {
	if err != nil {
		d.Helper()
		d.Fatal(err)
	}
}

func (d *database) data() string { return filepath.Join(d.disk, "data") }

func (d *database) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(d.bin, name), args...)
	c.Dir = d.disk
	c.SysProcAttr = &syscall.SysProcAttr{Credential: d.as, Setpgid: true}
	return c
}

func (d *database) run(name string, args ...string) {
	d.Helper()
	if out, err := d.command(name, args...).CombinedOutput(); err != nil {
		d.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// create makes a database that commits to a replica before it answers: so nothing that was
// answered is lost when that takes over.
func (d *database) create() {
	d.Helper()
	d.run("initdb", "-D", d.data(), "-A", "trust", "-U", "tipstaff", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	d.configure(d.data(), "max_connections = 200\nmin_wal_size = 32MB\nmax_wal_size = 128MB\nwal_keep_size = 64MB\nhot_standby = on\nsynchronous_standby_names = '*'\nunix_socket_directories = ''\nlog_min_messages = fatal\n")
}

// follow makes a replica of a server that runs.
func (d *database) follow(primary *database) {
	d.Helper()
	d.run("pg_basebackup", "-D", d.data(), "-R", "-c", "fast", "--no-sync", "-d", primary.store())
}

// start starts the server and waits until it answers. One that was killed a moment ago may
// not have let go of its memory yet, and is started again.
func (d *database) start() {
	d.Helper()
	_, port, err := net.SplitHostPort(d.addr)
	d.must(err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if !d.running() {
			c := d.command("postgres", "-D", d.data(), "-p", port, "-c", "listen_addresses=127.0.0.1")
			log, err := os.OpenFile(filepath.Join(d.disk, "..", filepath.Base(d.disk)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			d.must(err)
			c.Stdout, c.Stderr = log, log
			d.must(d.begin(c))
			log.Close()
		}
		err := d.query("SELECT 1")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			d.Fatalf("the database does not answer: %v", err)
		}
	}
}

func (d *database) query(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := pgconn.Connect(ctx, d.store())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, sql).ReadAll()
	return err
}

// fill leaves no room on the disk until free is called.
func (d *database) fill() (free func()) {
	d.Helper()
	name := filepath.Join(d.disk, "filler")
	f, err := os.Create(name)
	d.must(err)
	for size := int64(1 << 28); size >= 4096; {
		at, err := f.Seek(0, 2)
		d.must(err)
		if err := unix.Fallocate(int(f.Fd()), 0, at, size); err != nil {
			size /= 2
			continue
		}
		_, err = f.Seek(0, 2)
		d.must(err)
	}
	d.must(f.Close())
	return func() { d.must(os.Remove(name)) }
}
