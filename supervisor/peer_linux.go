package supervisor

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// PeerOf finds out whether a process that these owners have started holds the other end of
// a connection, and of which run it is. It looks at those processes and at no other, so whom
// it does not find there is somebody else. Where it cannot look at one of them, or nobody
// holds the other end any more, there is doubt.
//
// It does not see who has left them: what systemd, cron or a container engine starts for a
// program, and what a program makes another process do that it may trace.
func PeerOf(conn net.Conn, owners func() ([]flow.Owner, error)) Peer {
	own, other, here := ends(conn)
	if socket, ok := conn.(*net.UnixConn); ok {
		return unixPeer(socket, owners)
	}
	if !here {
		return Peer{}
	}
	inode := socketOf(other, own)
	if inode == 0 {
		return Peer{Doubt: true} // it was quick to go, and nobody waits for an answer
	}
	all, err := owners()
	if err != nil {
		return Peer{Doubt: true}
	}
	pid, doubt := holderOf("socket:["+strconv.FormatUint(uint64(inode), 10)+"]", ownersHere(all))
	if pid > 0 {
		return Peer{Member: memberOf(pid), Program: true}
	}
	return Peer{Doubt: doubt || socketOf(other, own) != inode}
}

// unixPeer is who has connected to a Unix socket.
func unixPeer(conn *net.UnixConn, owners func() ([]flow.Owner, error)) Peer {
	pid, known := connector(conn)
	if s, there := reap.StatOf(pid); known && (!there || s.Ended) {
		known = false
	}
	all, err := owners()
	if err != nil || !known {
		return Peer{Doubt: true}
	}
	m := memberOf(pid)
	return Peer{Member: m, Program: m.below(append(all, selfOwner()))}
}

// connector is the process that has connected. Of one that has ended, another may have its
// pid: the kernel's own descriptor of it tells, where there are such.
func connector(conn *net.UnixConn) (pid int, known bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		if handle, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			defer unix.Close(handle)
			info, _ := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(handle))
			_, rest, _ := strings.Cut(string(info), "\nPid:\t")
			line, _, _ := strings.Cut(rest, "\n")
			pid, err = strconv.Atoi(line)
			known = err == nil && pid > 0
		} else if errors.Is(err, unix.ENOPROTOOPT) { // an older kernel
			cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
			if known = err == nil; known {
				pid = int(cred.Pid)
			}
		}
	})
	return pid, known
}

// memberOf is what a process has to do with runs.
func memberOf(pid int) (m Member) {
	m.lookUp(pid)
	return m
}

// ownersHere are the processes of owners that can be looked at from here, and this one.
func ownersHere(owners []flow.Owner) (roots []reap.Process) {
	self := selfOwner()
	for _, o := range append(owners, self) {
		p := reap.Process{Pid: o.Pid, Start: o.Start}
		if o.Boot == self.Boot && o.PidNS == self.PidNS && o.Pid > 0 && !slices.Contains(roots, p) {
			roots = append(roots, p)
		}
	}
	return roots
}

// lookMost is how often processes that were started meanwhile are looked for.
const lookMost = 20

// holderOf is a process below owners that has a file open, by what the file is called in
// /proc. doubt: one of them may have it, and cannot be looked at.
func holderOf(file string, roots []reap.Process) (pid int, doubt bool) {
	seen := map[int]bool{}
	for range lookMost {
		fresh := false
		for _, pid := range programsOf(roots) {
			if seen[pid] {
				continue
			}
			seen[pid], fresh = true, true
			holds, hides := holds(pid, file)
			if holds {
				return pid, false
			}
			doubt = doubt || hides
		}
		if !fresh {
			return 0, doubt
		}
	}
	return 0, true // they are born faster than they can be looked at
}

// programsOf are the processes that these have started, and what those have started. What an
// owner that has died has left is looked for everywhere.
func programsOf(roots []reap.Process) (found []int) {
	var next []int
	dead := false
	for _, root := range roots {
		if root.Runs() {
			next = append(next, childrenOf(root.Pid)...)
		} else {
			dead = true
		}
	}
	if dead {
		next = append(next, strays()...)
	}
	seen := map[int]bool{}
	for _, root := range roots {
		seen[root.Pid] = true // one owner may have launched another
	}
	for ; len(next) > 0; next = next[1:] {
		if pid := next[0]; !seen[pid] {
			seen[pid] = true
			found = append(found, pid)
			next = append(next, childrenOf(pid)...)
		}
	}
	return found
}

// tellsChildren reports whether the kernel was made to tell the children of a process.
var tellsChildren = sync.OnceValue(func() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
})

// childrenOf asks for those of every thread.
func childrenOf(pid int) (children []int) {
	if !tellsChildren() {
		s, _ := reap.StatOf(pid)
		for _, p := range reap.Below(0, reap.Process{Pid: pid, Start: s.Start}) {
			children = append(children, p.Pid)
		}
		return children
	}
	for _, task := range namesIn(procFile(pid, "task")) {
		for _, word := range strings.Fields(readQuick(procFile(pid, "task") + "/" + task + "/children")) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// readQuick reads a file of /proc at a third of what package os takes, which has the runtime
// watch it: there is one for each thread of each process.
func readQuick(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var all []byte
	for chunk := make([]byte, 4096); ; {
		n, err := unix.Read(fd, chunk)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return string(all)
		}
		all = append(all, chunk[:n]...)
	}
}

// selfOwner is this process as an owner: it stays the same.
var selfOwner = sync.OnceValue(func() flow.Owner { return Self("", "") })

// strays are processes of runs by what they tell themselves, whoever has started them.
func strays() (found []int) {
	for _, name := range namesIn("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		args, _ := os.ReadFile(procFile(pid, "cmdline"))
		groups, _ := os.ReadFile(procFile(pid, "cgroup"))
		environ, _ := os.ReadFile(procFile(pid, "environ"))
		if reap.RunOf(strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")) != "" ||
			bytes.Contains(groups, []byte("/"+cgroupPrefix)) || carried(environ, runMarker) != "" {
			found = append(found, pid)
		}
	}
	return found
}

func namesIn(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// holds reports whether a process has a file open in one of its tables of descriptors. hides:
// it cannot be told, for a table cannot be read, or a file is on its way in a message or was
// given to the kernel.
func holds(pid int, file string) (holds, hides bool) {
	const sameFiles = 2 // KCMP_FILES
	for _, task := range namesIn(procFile(pid, "task")) {
		tid, _ := strconv.Atoi(task)
		if tid != pid {
			if differs, _, err := unix.Syscall6(unix.SYS_KCMP, uintptr(pid), uintptr(tid), sameFiles, 0, 0, 0); err == 0 && differs == 0 {
				continue
			}
		}
		dir := filepath.Join(procFile(pid, "task"), task)
		table, err := os.Open(filepath.Join(dir, "fd"))
		if err != nil {
			hides = hides || !errors.Is(err, fs.ErrNotExist)
			continue
		}
		names, err := table.Readdirnames(-1)
		table.Close()
		hides = hides || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
		for _, fd := range names {
			open, err := os.Readlink(filepath.Join(dir, "fd", fd))
			switch {
			case err == nil && open == file:
				return true, false
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				hides = true
			case strings.HasPrefix(open, "socket:") || open == "anon_inode:[io_uring]":
				info, _ := os.ReadFile(filepath.Join(dir, "fdinfo", fd))
				hides = hides || counts(info, "scm_fds:") || counts(info, "UserFiles:")
			}
		}
	}
	return false, hides
}

// counts reports whether a line of that name has a number other than 0.
func counts(info []byte, name string) bool {
	for line := range bytes.Lines(info) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return string(bytes.TrimSpace(rest)) != "0"
		}
	}
	return false
}

// socketOf is the inode of the socket at one end of a TCP connection of this machine; 0: no
// process has it any more.
func socketOf(own, other netip.AddrPort) uint32 {
	inode, found := diagnosed(own, other)
	if !found {
		if _, works := diagnosed(other, own); !works { // which is ours, and there: the kernel does not answer such questions
			return listed(own, other)
		}
	}
	return inode
}

// diagnosed asks the kernel for one socket: to read the list of all takes milliseconds.
func diagnosed(own, other netip.AddrPort) (inode uint32, found bool) {
	const (
		diagByFamily = 20
		listens      = 10
		size         = 72 // of the request; the answer has a header of 16, then state at 1 and inode at 68
	)
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, false
	}
	defer unix.Close(s)
	family := byte(unix.AF_INET6)
	if own.Addr().Is4() {
		family = unix.AF_INET
	}
	b := binary.NativeEndian.AppendUint32(nil, size)
	b = binary.NativeEndian.AppendUint16(b, diagByFamily)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence and port
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // in any state
	b = binary.BigEndian.AppendUint16(b, own.Port())
	b = binary.BigEndian.AppendUint16(b, other.Port())
	for _, a := range []netip.AddrPort{own, other} {
		b = append(b, append(a.Addr().AsSlice(), make([]byte, 16)...)[:16]...)
	}
	b = append(b, 0, 0, 0, 0)                           // by any interface
	b = binary.NativeEndian.AppendUint64(b, ^uint64(0)) // no cookie
	if unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return 0, false
	}
	answer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil || n < 16+72 || binary.NativeEndian.Uint16(answer[4:]) != diagByFamily || answer[16+1] == listens {
		return 0, false
	}
	return binary.NativeEndian.Uint32(answer[16+68:]), true
}

// listed finds the socket in the list of all.
func listed(own, other netip.AddrPort) (inode uint32) {
	name := func(a netip.AddrPort) string {
		ip := a.Addr().AsSlice()
		for i := 0; i < len(ip); i += 4 {
			binary.NativeEndian.PutUint32(ip[i:], binary.BigEndian.Uint32(ip[i:]))
		}
		return strings.ToUpper(hex.EncodeToString(ip) + ":" + hex.EncodeToString(binary.BigEndian.AppendUint16(nil, a.Port())))
	}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // number local remote state queues timer retransmits uid timeout inode …
			if len(f) > 9 && strings.HasSuffix(f[1], name(own)) && strings.HasSuffix(f[2], name(other)) {
				n, _ := strconv.ParseUint(f[9], 10, 32)
				return uint32(n)
			}
		}
	}
	return 0
}
