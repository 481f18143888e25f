//go:build !linux

package main

// inMemory returns no folder: only Linux has one in memory everywhere.
func inMemory() (dir string, remove func()) { return "", func() {} }
