package mcp

import (
	"bufio"
	"net"
	"os/exec"
	"strconv"
	"strings"
)

// httpServer is a service that was there before.
type httpServer struct {
	w     *workspace
	port  string
	url   string
	argv  []string
	ready string // what it says when it listens
	cmd   *exec.Cmd
}

// serveHTTP starts server-everything on a free port.
func (w *workspace) serveHTTP() *httpServer {
	w.Helper()
	return w.serve("listening on port", w.node, start(w.folder(everything)), "streamableHttp")
}

// serve starts a service, which finds its port in the environment.
func (w *workspace) serve(ready string, argv ...string) *httpServer {
	w.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	w.Check(err)
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	w.Check(free.Close())
	s := &httpServer{w: w, port: port, url: "http://127.0.0.1:" + port + "/mcp", argv: argv, ready: ready}
	s.start()
	return s
}

// start returns when the server listens.
func (s *httpServer) start() {
	s.w.Helper()
	s.cmd = exec.Command(s.argv[0], s.argv[1:]...)
	s.cmd.Dir = s.w.Dir
	s.cmd.Env = []string{"PORT=" + s.port}
	says, err := s.cmd.StderrPipe()
	s.w.Check(err)
	s.w.Check(s.cmd.Start())
	s.w.Cleanup(s.kill)
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if strings.Contains(lines.Text(), s.ready) {
			return
		}
	}
	s.w.Fatalf("the server does not listen: %v", lines.Err())
}

func (s *httpServer) kill() {
	_ = s.cmd.Process.Kill() // it may be dead already
	_ = s.cmd.Wait()
}
