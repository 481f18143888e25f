package supervisor

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

func pidNamespace() string {
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return ns
}

func exists(pid int) bool {
	_, running := startTime(pid)
	return running
}

// startTime is when the process began, in the kernel's ticks since boot. One that
// has ended does not run, even if nobody has waited for it yet.
func startTime(pid int) (ticks int64, running bool) {
	s, running := statOf(pid)
	return s.start, running
}

// procStat is what the kernel tells of a process that runs.
type procStat struct {
	start   int64 // in ticks since boot
	leaving bool  // it ends, and may have lost its environment already
}

func statOf(pid int) (s procStat, running bool) {
	text, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return procStat{}, false
	}
	return parseStat(text)
}

// parseStat reads the state, the flags and the start time, the 3rd, 9th and 22nd
// field. The 2nd is the program's name in parentheses, which may hold spaces and
// parentheses itself.
func parseStat(text []byte) (s procStat, running bool) {
	const state, flags, start = 0, 9 - 3, 22 - 3 // counted from the 3rd, the field after the name
	const exiting = 0x4                          // PF_EXITING
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= start {
		return procStat{}, false
	}
	switch string(fields[state]) {
	case "Z", "X", "x": // a zombie, or gone while we looked
		return procStat{}, false
	}
	bits, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	if err != nil {
		return procStat{}, false
	}
	if s.start, err = strconv.ParseInt(string(fields[start]), 10, 64); err != nil {
		return procStat{}, false
	}
	s.leaving = bits&exiting != 0
	return s, true
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}
