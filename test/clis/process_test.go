//go:build linux

package clis

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is one that runs.
type process struct {
	pid, parent int
	comm        string
}

func (p process) String() string { return fmt.Sprintf("%s (%d)", p.comm, p.pid) }

// processes are all that run, zombies aside.
func processes() (all []process) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[shut+1:]))
		if fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, process{pid, parent, string(stat[open+1 : shut])})
	}
	return all
}

// marked are the processes that have TIPSTAFF_RUN_ID of that value in their environment.
func marked(run string) (found []process) {
	for _, p := range processes() {
		if p.environment("TIPSTAFF_RUN_ID") == run {
			found = append(found, p)
		}
	}
	return found
}

// below are the descendants of a process.
func below(pid int) (found []process) {
	all := processes()
	for _, p := range all {
		if p.parent == pid {
			found = append(append(found, p), below(p.pid)...)
		}
	}
	return found
}

// end kills processes that a test left.
func end(left []process) {
	for _, p := range left {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// environment is the value of a variable that the process was started with.
func (p process) environment(name string) string {
	env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid)) // it may have ended
	for _, entry := range strings.Split(string(env), "\x00") {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// reaps reports whether the process is tipstaff reap.
func (p process) reaps() bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	args := strings.Split(string(line), "\x00")
	return len(args) > 1 && args[1] == "reap"
}
