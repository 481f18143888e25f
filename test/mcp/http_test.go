package mcp

import (
	"bufio"
	"net"
	"os/exec"
	"strconv"
	"strings"
)

// httpServer is server-everything as a service that was there before.
type httpServer struct {
	w    *workspace
	port string
	url  string
	cmd  *exec.Cmd
}

// serveHTTP starts it on a free port.
func (w *workspace) serveHTTP() *httpServer {
	w.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	w.Check(err)
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	w.Check(free.Close())
	s := &httpServer{w: w, port: port, url: "http://127.0.0.1:" + port + "/mcp"}
	s.start()
	return s
}

// start returns when the server listens.
func (s *httpServer) start() {
	s.w.Helper()
	s.cmd = exec.Command(s.w.node, start(s.w.folder(everything)), "streamableHttp")
	s.cmd.Env = []string{"PORT=" + s.port}
	says, err := s.cmd.StderrPipe()
	s.w.Check(err)
	s.w.Check(s.cmd.Start())
	s.w.Cleanup(s.kill)
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening on port") {
			return
		}
	}
	s.w.Fatalf("the server does not listen: %v", lines.Err())
}

func (s *httpServer) kill() {
	_ = s.cmd.Process.Kill() // it may be dead already
	_ = s.cmd.Wait()
}
