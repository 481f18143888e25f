package supervisor

import (
	"context"
	"testing"
)

// What it costs to start a program that ends at once and to see its end: by itself, and
// while another program of ours lives, among whose descendants one without a reaper
// might have left something.
func BenchmarkStart(b *testing.B) {
	if err := Adopt(); err != nil { // as the command does
		b.Fatal(err)
	}
	for name, c := range map[string]struct{ reap, beside bool }{
		"alone": {}, "alone, reaped": {reap: true}, "beside another": {beside: true}, "beside another, reaped": {true, true},
	} {
		b.Run(name, func(b *testing.B) {
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
