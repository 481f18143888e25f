//go:build unix && race

package cmdtest

const race = true
