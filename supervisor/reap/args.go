// Package reap is the process between Tipstaff and a program that Tipstaff has started:
// it stays the ancestor of everything that the program starts, whatever session, group
// and environment that has, and ends all of it with the program, or with Tipstaff.
//
// A program that imports this package is a reaper wherever it is started with [Args]:
// its own code is not reached then. It imports little, so that it is set up before
// others: see the order in which Go sets up packages, by their dependencies and names.
//
// On its socket a reaper says, by lines: "up PID START LEVEL" or "refused ERRNO"; then
// "exit CODE" or "signal NUMBER", as the program ended; "left PID NAME" of what it left
// behind, "survivor PID NAME" of what cannot be ended; and "done". It is told, by lines,
// to stop the program and after how many milliseconds to kill it and the rest; the end
// of the socket is the end of Tipstaff.
package reap

// control is the descriptor of the socket to Tipstaff.
const control = 3

// protocol changes with the lines that are exchanged and with the arguments: a binary
// that was replaced while a process of it runs must not be taken for it.
const protocol = "--protocol=1"

// options are the arguments of a reaper.
type options struct {
	cgroup string // folder of the program's cgroup; "": it has none
	path   string // of the program
	argv   []string
}

// Args are the arguments of a reaper of a program. The run, for which it is started, is
// for those who look for the run of one of its descendants.
func Args(run, cgroup, path string, argv []string) []string {
	return append([]string{"tipstaff", "reap", protocol, run, cgroup, path}, argv...)
}

func parse(args []string) (o options, ok bool) {
	if len(args) < 7 || args[1] != "reap" || args[2] != protocol {
		return options{}, false
	}
	return options{cgroup: args[4], path: args[5], argv: args[6:]}, true
}

// RunOf is the run in the arguments of a reaper; "" if these are those of another program.
func RunOf(args []string) string {
	if _, ok := parse(args); !ok {
		return ""
	}
	return args[3]
}
