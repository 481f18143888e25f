package main

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine describes what the figures were taken on, and finds out how fast its
// disk syncs.
func (b *bench) machine() (string, error) {
	raw, err := newRaw(filepath.Join(b.dir, "sync"), 512)
	if err != nil {
		return "", err
	}
	defer raw.close()
	if b.syncs, err = repeat(b.round, raw.step); err != nil {
		return "", err
	}
	s := fmt.Sprintf("%s/%s, %d cores, %s, %s syncs/s of a file below %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), count(b.syncs), filepath.Dir(b.dir))
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		s += ", load " + strings.Fields(string(load))[0]
	}
	return s, nil
}

// patience is how long most figures may take, and long is for the one that
// takes longest.
const (
	patience = 25 * time.Second
	long     = time.Minute
)

// turns are the rounds of a figure: fewer than asked for, but one at least,
// where they take too long.
func (b *bench) turns() iter.Seq[int] {
	return func(yield func(int) bool) {
		start := time.Now()
		for i := range b.rounds {
			if i > 0 && time.Since(start) > patience || !yield(i) {
				return
			}
		}
	}
}

// affordable reports whether so many synced steps can be taken on this disk in
// time, and how long they would take.
func (b *bench) affordable(steps int, within time.Duration) (time.Duration, bool) {
	const share = 0.5 // of the disk's rate
	d := time.Duration(float64(steps) / (share * b.syncs) * float64(time.Second))
	return d, d <= within
}

// repeat calls step for a while and returns how often a second.
func repeat(d time.Duration, step func() error) (rate float64, err error) {
	start := time.Now()
	for n := 1.0; ; n++ {
		if err := step(); err != nil {
			return 0, err
		}
		if spent := time.Since(start); spent >= d {
			return n / spent.Seconds(), nil
		}
	}
}
