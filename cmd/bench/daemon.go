package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipstaff/tipstaff/pb"
)

const askLimit = 300 * time.Microsecond

// measureBounds: CheckBounds of a daemon over a connection that is there already,
// beside a process that is started to ask the same.
func measureBounds(ctx context.Context, b *bench) (rows []row, err error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "daemon")
	if err := newWorkspace(dir); err != nil {
		return nil, err
	}
	d, err := startDaemon(ctx, binary, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+d.token)
	// Windows of a fixed size, as the server's: fitting them to the line is a ping and its
	// answer for every short call.
	conn, err := grpc.NewClient(d.addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(1<<20), grpc.WithStaticConnWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := pb.NewCoreServiceClient(conn)
	env, err := client.CreateEnvelope(ctx, &pb.CreateEnvelopeRequest{RawInput: "bench",
		Pipeline: &pb.PipelineConfig{Source: &pb.PipelineConfig_Document{Document: []byte(loopDocument(3, "a", "b", "c"))}}})
	if err != nil {
		return nil, err
	}
	var calls, processes []float64
	view := &pb.Envelope{EnvelopeId: env.EnvelopeId}
	for range b.starts {
		for range b.asks / b.starts {
			start := time.Now()
			if _, err := client.CheckBounds(ctx, view); err != nil {
				return nil, err
			}
			calls = append(calls, time.Since(start).Seconds())
		}
		start := time.Now()
		show := osexec.CommandContext(ctx, binary, "show", env.RunId, "--json", "--workspace", dir)
		show.Stderr = &strings.Builder{}
		if err := explain(show, show.Run()); err != nil {
			return nil, err
		}
		processes = append(processes, time.Since(start).Seconds())
	}
	mid := median(calls)
	fastest := calls[0] // median sorted them
	return []row{{figure: "`CheckBounds` over a warm loopback connection", value: mid, measured: fmt.Sprintf("%.2f ms", mid*1e3),
		beside: fmt.Sprintf("median of %s; fastest %.2f ms; a process that asks: %s", count(float64(len(calls))), fastest*1e3, milliseconds(time.Duration(median(processes)*float64(time.Second)))),
		bound:  goal("≤ 0.3 ms", mid <= askLimit.Seconds())}}, nil
}

// daemon is a `tipstaff serve` that this process started.
type daemon struct {
	cmd               *osexec.Cmd
	addr, site, token string // of gRPC and of HTTP
}

func startDaemon(ctx context.Context, binary, dir string) (*daemon, error) {
	return awaitDaemon(osexec.CommandContext(ctx, binary, serveArgs(dir)...))
}

func serveArgs(dir string) []string {
	return []string{"serve", "--json", "--grpc-addr", "127.0.0.1:0", "--addr", "127.0.0.1:0", "--workspace", dir}
}

// awaitDaemon starts a daemon, and returns when it listens.
func awaitDaemon(cmd *osexec.Cmd) (*daemon, error) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	d := &daemon{cmd: cmd}
	var told struct {
		Addr string `json:"grpc_addr"`
		Site string `json:"addr"`
		File string `json:"token_file"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &told)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the daemon says %q: %w", line, err), d.stop())
	}
	d.addr, d.site = told.Addr, told.Site
	if told.File == "" { // the manifest has tokens
		return d, nil
	}
	token, err := os.ReadFile(told.File)
	if err != nil {
		return nil, errors.Join(err, d.stop())
	}
	d.token = strings.TrimSpace(string(token))
	return d, nil
}

func (d *daemon) stop() error {
	return errors.Join(d.cmd.Process.Signal(syscall.SIGTERM), d.cmd.Wait())
}

// resident is what the daemon holds, as far as this system tells.
func (d *daemon) resident() float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if kB, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kB), "kB")), 64)
			return n * 1024
		}
	}
	return 0
}
