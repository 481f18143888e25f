package mcpserver

import "syscall"

func duplicate(from, to int) error { return syscall.Dup3(from, to, 0) }
