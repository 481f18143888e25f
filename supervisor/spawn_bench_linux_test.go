package supervisor

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// What it costs to start a program that ends at once and to see its end: by itself, and
// while another program of ours lives, among whose descendants one without a reaper
// might have left something.
func BenchmarkStart(b *testing.B) {
	if err := Adopt(); err != nil { // as the command does
		b.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		reap, beside bool
	}{{"alone", false, false}, {"alone, reaped", true, false}, {"beside another", false, true}, {"beside another, reaped", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			if c.beside {
				other, err := Spawn(Command{Path: "/bin/cat", Args: []string{"cat"}, Reap: true})
				if err != nil {
					b.Fatal(err)
				}
				defer other.Close()
			}
			for b.Loop() {
				f, err := Output(context.Background(), Command{Path: "/bin/true", Args: []string{"true"}, Reap: c.reap}, nil, 0)
				if err != nil || f.Exit != (Exit{}) {
					b.Fatal(f, err)
				}
			}
		})
	}
}

// What a reaper costs while its program runs: nothing that is printed goes through it,
// and it holds some memory.
func BenchmarkPrint(b *testing.B) {
	for _, c := range []struct {
		name string
		reap bool
	}{{"by itself", false}, {"reaped", true}} {
		b.Run(c.name, func(b *testing.B) {
			const size = 64 << 20
			b.SetBytes(size)
			for b.Loop() {
				command := script("head -c " + strconv.Itoa(size) + " /dev/zero")
				command.Reap = c.reap
				f, err := Output(context.Background(), command, nil, size)
				if err != nil || len(f.Stdout) != size {
					b.Fatal(len(f.Stdout), err)
				}
			}
			if c.reap {
				b.ReportMetric(reaperMemory(b), "KiB/reaper")
			}
		})
	}
}

// reaperMemory is what a reaper that waits has of its own.
func reaperMemory(b *testing.B) float64 {
	p, err := Spawn(Command{Path: "/bin/cat", Args: []string{"cat"}, Reap: true})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	s, _ := reap.StatOf(p.Identity().Pid)
	status, err := os.ReadFile(procFile(s.Parent, "status"))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib
}
