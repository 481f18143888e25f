package main

import "syscall"

func mountTmpfs(dir string) error {
	return syscall.Mount("tipstaff-test", dir, "tmpfs", 0, "size=2m,mode=700")
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
