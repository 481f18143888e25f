package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Two runs that start the same servers at once need different ports. Each directory has those
// that it was given in a file beside it, for as long as it is there.

// Ports are given from a range that systems do not give to connections by themselves.
const (
	firstPort = 20_000
	lastPort  = 29_999
)

func portsFile(dir string) string { return dir + ".ports" }

// portsOf are the ports that a directory was given.
func portsOf(dir string) (ports []int, err error) {
	data, err := readSmall(portsFile(dir))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	if json.Unmarshal(data, &ports) != nil {
		return nil, nil // it was being written when its process ended: it is written anew
	}
	return ports, nil
}

// givePorts gives a directory free ports that no other has.
func (e Env) givePorts(ctx context.Context, dir string, n int) (ports []int, err error) {
	if n == 0 {
		return nil, nil
	}
	if ports, err = portsOf(dir); err != nil || len(ports) == n {
		return ports, err
	}
	unlock, err := e.lock(ctx, "ports.lock")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	taken := map[int]bool{}
	all, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(dir)), "*.ports"))
	if err != nil {
		return nil, err
	}
	for _, file := range all {
		if file == portsFile(dir) {
			continue
		}
		var others []int
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &others) == nil {
			for _, p := range others {
				taken[p] = true
			}
		}
	}
	sum := fnv.New32()
	_, _ = sum.Write([]byte(dir))
	const size = lastPort - firstPort + 1
	begin := int(sum.Sum32() % size) // so that a port that one run has left is not the next one's at once
	ports = []int{}
	for i := 0; i < size && len(ports) < n; i++ {
		if p := firstPort + (begin+i)%size; !taken[p] && portFree(p) {
			ports = append(ports, p)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("%d free ports are asked for, and from %d to %d there are %d", n, firstPort, lastPort, len(ports))
	}
	data, err := json.Marshal(ports)
	if err != nil {
		return nil, err
	}
	return slices.Clone(ports), os.WriteFile(portsFile(dir), data, 0o600)
}

// portFree reports whether nobody listens at a port of this machine.
func portFree(p int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(p)))
		if err != nil {
			return false
		}
		_ = l.Close() // nobody has connected
	}
	return true
}

// PortVariable begins the names of the variables that tell programs which ports are theirs;
// the number of the port among them follows, from 1.
const PortVariable = "TIPSTAFF_PORT_"

func portsEnv(ports []int) (env []string) {
	for i, p := range ports {
		env = append(env, fmt.Sprintf("%s%d=%d", PortVariable, i+1, p))
	}
	return env
}

// Environ is what programs that work in the worktree are told in their environment.
func (w Worktree) Environ() []string { return portsEnv(w.Ports) }
