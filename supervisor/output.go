package supervisor

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"
)

// Finished is a program that was run to its end.
type Finished struct {
	Stdout, Stderr []byte
	Exit           Exit
	Duration       time.Duration
	Cut            bool   // it printed more than was kept, of one or both
	Leftover       []Left // what it had left running, of programs with a reaper
}

// Output runs a program to its end: with stdin as its input, and the first limit bytes
// of each of its outputs kept; the rest is read and dropped. Without stdin it has no
// input (see [Command.NoInput]).
//
// It is an error that the program could not be started or was stopped because ctx
// ended, which is then the cause; what it printed until then is returned all the same.
// How it exits is not an error: see Exit. When Output returns nothing of the program is
// left.
func Output(ctx context.Context, c Command, stdin []byte, limit int64) (Finished, error) {
	return output(ctx, c, stdin, [2]bounded{{room: limit}, {room: limit}})
}

// OutputEnd is [Output] of a program without input, and keeps the last bytes of each of its
// outputs: a program that fails says why at the end.
func OutputEnd(ctx context.Context, c Command, limit int64) (Finished, error) {
	return output(ctx, c, nil, [2]bounded{{room: limit, end: true}, {room: limit, end: true}})
}

func output(ctx context.Context, c Command, stdin []byte, outs [2]bounded) (Finished, error) {
	if ctx.Err() != nil {
		return Finished{}, context.Cause(ctx)
	}
	c.NoInput = stdin == nil
	began := time.Now()
	p, err := Spawn(c)
	if err != nil {
		return Finished{}, err
	}
	go func() {
		defer p.Stdin().Close()
		_, _ = p.Stdin().Write(stdin) // a program need not read its input
	}()
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&outs[0], p.Stdout()) })
	reading.Go(func() { _, _ = io.Copy(&outs[1], p.Stderr()) })
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(Grace)
		err = context.Cause(ctx)
	}
	f := Finished{Duration: time.Since(began)}
	reading.Wait()
	f.Stdout, f.Stderr = outs[0].bytes(), outs[1].bytes()
	f.Cut = outs[0].cut || outs[1].cut
	if closed := p.Close(); closed != nil {
		return f, cmp.Or(err, closed) // it hangs in the kernel: how it ends is not known
	}
	f.Exit, f.Leftover = p.Wait(), p.Leftover()
	return f, err
}

// bounded keeps the beginning of what is written to it, or its end.
type bounded struct {
	kept []byte
	room int64
	end  bool
	cut  bool
}

func (b *bounded) Write(data []byte) (int, error) {
	n := len(data)
	switch {
	case b.end:
		if b.kept = append(b.kept, data...); int64(len(b.kept)) > 2*b.room {
			b.cut, b.kept = true, append(b.kept[:0], b.bytes()...)
		}
	case int64(len(b.kept)+n) > b.room:
		data, b.cut = data[:b.room-int64(len(b.kept))], true
		fallthrough
	default:
		b.kept = append(b.kept, data...)
	}
	return n, nil
}

func (b *bounded) bytes() []byte {
	if over := int64(len(b.kept)) - b.room; over > 0 {
		b.cut = true
		return b.kept[over:]
	}
	return b.kept
}
