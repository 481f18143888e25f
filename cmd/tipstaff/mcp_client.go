package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/tipstaff/tipstaff/supervisor"
)

// runClient runs a client of MCP, which is the user's own, with their whole environment.
func runClient(ctx context.Context, dir string, argv []string) (code int, err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 0, err
	}
	p, err := supervisor.Spawn(supervisor.Command{Path: path, Args: argv, Dir: dir, Env: os.Environ(), NoInput: true})
	if err != nil {
		return 0, err
	}
	defer context.AfterFunc(ctx, func() { p.Stop(supervisor.Grace) })()
	var said sync.WaitGroup
	for _, out := range []io.Reader{p.Stdout(), p.Stderr()} {
		said.Go(func() { _, _ = io.Copy(os.Stderr, out) }) // what is lost of its words is no reason to end it
	}
	said.Wait()
	exit := p.Wait()
	if exit.Signal != "" {
		exit.Code = -1
	}
	return exit.Code, p.Close()
}
