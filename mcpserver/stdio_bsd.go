//go:build darwin || freebsd || netbsd || openbsd

package mcpserver

import "syscall"

func duplicate(from, to int) error { return syscall.Dup2(from, to) }
