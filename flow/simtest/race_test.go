//go:build race

package simtest

const raceDetector = true
