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
	stat, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return 0, false
	}
	return parseStat(stat)
}

// parseStat reads state and start time, the 3rd and 22nd field. The 2nd is the
// program's name in parentheses, which may hold spaces and parentheses itself.
func parseStat(stat []byte) (ticks int64, running bool) {
	const state, start = 0, 22 - 3 // counted from the 3rd, the field after the name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= start {
		return 0, false
	}
	switch string(fields[state]) {
	case "Z", "X", "x": // a zombie, or gone while we looked
		return 0, false
	}
	ticks, err := strconv.ParseInt(string(fields[start]), 10, 64)
	if err != nil {
		return 0, false
	}
	return ticks, true
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}
