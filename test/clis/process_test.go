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
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00TIPSTAFF_RUN_ID="+run+"\x00")) {
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
