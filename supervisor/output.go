package supervisor

import (
	"bytes"
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
	outs := [2]bounded{{room: limit}, {room: limit}}
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
	f.Stdout, f.Stderr, f.Cut = outs[0].kept.Bytes(), outs[1].kept.Bytes(), outs[0].cut || outs[1].cut
	if closed := p.Close(); closed != nil {
		return f, cmp.Or(err, closed) // it hangs in the kernel: how it ends is not known
	}
	f.Exit, f.Leftover = p.Wait(), p.Leftover()
	return f, err
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	kept bytes.Buffer
	room int64
	cut  bool
}

func (b *bounded) Write(data []byte) (int, error) {
	n := len(data)
	if int64(n) > b.room {
		data, b.cut = data[:b.room], true
	}
	b.kept.Write(data)
	b.room -= int64(len(data))
	return n, nil
}
