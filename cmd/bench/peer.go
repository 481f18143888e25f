package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor"
)

const peerLimit = 200 * time.Microsecond

// measurePeer: what it takes to find out that no program of a run holds the other end of a
// connection, while one is there.
func measurePeer(_ context.Context, b *bench) (_ []row, err error) {
	program, err := supervisor.Spawn(supervisor.Command{Path: "/bin/sleep", Args: []string{"sleep", "300"}, Dir: b.dir, Env: supervisor.Markers("BENCH", "BENCH"), NoInput: true, Reap: true})
	if err != nil {
		return nil, err
	}
	defer func() {
		program.Stop(0)
		err = errors.Join(err, program.Close())
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer dialed.Close()
	conn, err := l.Accept()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var all []float64
	for range 20 * b.effort.starts {
		began := time.Now()
		p := supervisor.PeerOf(conn, func() ([]flow.Owner, error) { return nil, nil })
		all = append(all, time.Since(began).Seconds())
		if p.Program || p.Doubt {
			return nil, errors.New("the bench is taken for a program of a run")
		}
	}
	mid := median(all)
	took := time.Duration(mid * float64(time.Second))
	return []row{{figure: "who holds the other end of a connection", value: mid, measured: took.Round(time.Microsecond).String(),
		beside: "median, while a program of a run is there", bound: goal("< "+peerLimit.String(), took < peerLimit)}}, nil
}
