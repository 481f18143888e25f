package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tipstaff/tipstaff"
)

// listen listens at an address of the network, or on a Unix socket that only the user of
// this process can open.
func listen(addr string) (net.Listener, error) {
	socket := tipstaff.SocketPath(addr)
	if socket == "" {
		return net.Listen("tcp", addr)
	}
	socket, err := filepath.Abs(socket)
	if err != nil {
		return nil, err
	}
	if err := removeStale(socket); err != nil {
		return nil, err
	}
	mask := syscall.Umask(0o177) // the socket is never open to others, not even for a moment
	defer syscall.Umask(mask)
	return net.Listen("unix", socket)
}

// removeStale removes a socket that a process has left which is no more: nobody answers
// there. Nothing but a socket is removed.
func removeStale(socket string) error {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there, and is not a socket", socket)
	}
	conn, err := net.Dial("unix", socket)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("somebody answers at %s already", socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(socket)
	}
	return err
}
