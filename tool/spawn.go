package tool

import "os"

// Spawner starts a server's program. It is given by whoever knows how processes
// are kept from outliving their run.
type Spawner func(Command) (Process, error)

// Command is a program to be started.
type Command struct {
	Path string   // of the program, absolute
	Args []string // the first is the program's own name
	Dir  string
	Env  []string // all of its environment
}

// Process is a program that was started, with pipes for what it reads and writes.
type Process interface {
	Stdin() *os.File
	Stdout() *os.File // ends soon after the program, whoever else has it open
	Stderr() *os.File
	Exited() <-chan struct{} // closed when the program has ended
	State() string           // how it ended; known when Exited is closed
	// Close ends the program and everything it started. It gives them a little time
	// to end by themselves, and takes five seconds at most.
	Close() error
}
