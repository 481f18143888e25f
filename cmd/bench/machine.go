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

// machine describes what the figures were taken on, and finds out how fast the disk of a
// folder syncs.
func (b *bench) machine(dir string) (string, error) {
	raw, err := newRaw(filepath.Join(dir, "sync"), 512)
	if err != nil {
		return "", err
	}
	defer raw.close()
	syncs, err := repeat(b.round, raw.step)
	if err != nil {
		return "", err
	}
	s := fmt.Sprintf("%s/%s, %d cores, %s, %s syncs/s of a file below %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), count(syncs), filepath.Dir(dir))
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		s += ", load " + strings.Fields(string(load))[0]
	}
	return s, nil
}

// patience is how long a figure may take, more or less, before it makes do with
// less than was asked for.
const patience = 25 * time.Second

// turns are the rounds of a figure: fewer than asked for, but one at least,
// where they take too long.
func turns(rounds int) iter.Seq[int] {
	return func(yield func(int) bool) {
		start := time.Now()
		for i := range rounds {
			if i > 0 && time.Since(start) > patience || !yield(i) {
				return
			}
		}
	}
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
