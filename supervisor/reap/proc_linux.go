package reap

import (
	"os"
	"strconv"
	"syscall"
)

// Process is one at a time: the system gives a pid again, but not with the same start.
type Process struct {
	Pid   int
	Start int64 // in ticks since boot
}

// Signal sends a signal to the process, and to no other that has its pid by now.
func (p Process) Signal(s syscall.Signal) {
	const pidfdSendSignal, pidfdOpen = 424, 434
	fd, _, err := syscall.RawSyscall(pidfdOpen, uintptr(p.Pid), 0, 0)
	if err == 0 {
		defer syscall.Close(int(fd))
	}
	if now, known := StatOf(p.Pid); !known || now.Start != p.Start {
		return
	}
	switch err {
	case 0:
		_, _, _ = syscall.RawSyscall6(pidfdSendSignal, fd, uintptr(s), 0, 0, 0, 0) // no error but that it has ended
	case syscall.ENOSYS: // an old kernel: the start has to do
		_ = syscall.Kill(p.Pid, s)
	}
}

// Stat is what the kernel reports of a process.
type Stat struct {
	Parent, Session int
	Start           int64 // in ticks since boot
	Ended           bool  // and was not waited for yet
	Leaving         bool  // it ends, and may have lost its environment already
}

// StatOf asks the kernel.
func StatOf(pid int) (s Stat, known bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, false
	}
	return ParseStat(text)
}

// ParseStat reads the fields after the name. That stands in parentheses, and may hold
// spaces and parentheses itself.
func ParseStat(text []byte) (Stat, bool) {
	const (
		exiting = 0x4 // PF_EXITING
		last    = 19
	)
	begin := len(text)
	for begin > 0 && text[begin-1] != ')' {
		begin--
	}
	var fields []string
	for word, i := -1, begin; i <= len(text); i++ {
		gap := i == len(text) || text[i] == ' ' || text[i] == '\n'
		switch {
		case gap && word >= 0:
			fields, word = append(fields, string(text[word:i])), -1
		case !gap && word < 0:
			word = i
		}
	}
	if len(fields) <= last {
		return Stat{}, false
	}
	known := true
	number := func(i int) int64 {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		known = known && err == nil
		return n
	}
	s := Stat{Parent: int(number(1)), Session: int(number(3)), Start: number(last), Leaving: number(6)&exiting != 0}
	switch fields[0] {
	case "Z", "X", "x": // a zombie, or gone while we looked
		s.Ended = true
	}
	return s, known
}

// Comm is the name that a process gives itself, as one word.
func Comm(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if n := len(text); n > 0 {
		text = text[:n-1]
	}
	for i, c := range text {
		if c <= ' ' || c >= 0x7f {
			text[i] = '?'
		}
	}
	if len(text) == 0 {
		return "?"
	}
	return string(text)
}

// Below are the living descendants of some processes. Those of spare, and spare itself,
// are left out.
func Below(spare int, roots ...Process) (found []Process) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	children, stats := map[int][]int{}, map[int]Stat{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, known := StatOf(pid); known {
			stats[pid] = s
			children[s.Parent] = append(children[s.Parent], pid)
		}
	}
	var next []int
	for _, root := range roots {
		if stats[root.Pid].Start == root.Start {
			next = append(next, children[root.Pid]...)
		}
	}
	seen := map[int]bool{spare: true}
	for ; len(next) > 0; next = next[1:] {
		pid := next[0]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		next = append(next, children[pid]...)
		if s := stats[pid]; !s.Ended {
			found = append(found, Process{pid, s.Start})
		}
	}
	return found
}

// KillAll kills all that looks find, and returns them. Stopped they start no others
// while the rest is looked for.
func KillAll(look func() []Process) (killed []Process) {
	seen := map[Process]bool{}
	for more := true; more; {
		more = false
		for _, p := range look() {
			if !seen[p] {
				seen[p], more, killed = true, true, append(killed, p)
				p.Signal(syscall.SIGSTOP)
			}
		}
	}
	for _, p := range killed {
		p.Signal(syscall.SIGKILL)
	}
	return killed
}

// Runs reports whether the process is there and has not ended.
func (p Process) Runs() bool {
	now, known := StatOf(p.Pid)
	return known && !now.Ended && now.Start == p.Start
}
