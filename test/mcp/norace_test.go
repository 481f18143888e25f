//go:build !race

package mcp

const race = false
