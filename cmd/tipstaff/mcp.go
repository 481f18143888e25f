package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/mcpserver"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/web"
)

// mcp serves the runs of a workspace to MCP clients: to one on standard input and output, or
// to several over HTTP.
func (s *stop) mcp(ctx context.Context, o cli.MCPOptions, announce func(cli.Listening) error) (err error) {
	var stdout *os.File
	if o.HTTP == "" {
		if stdout, err = mcpserver.TakeStdout(); err != nil {
			return err
		}
	}
	log := logTo(o.JSON)
	opened, err := s.openControlled(ctx, o)
	if e := (*tipstaff.Error)(nil); errors.As(err, &e) && o.HTTP == "" {
		// Its tools say so: clients show that, and not why a server does not start.
		return mcpserver.New(mcpserver.Options{Unresolved: e, Version: build.Version, ReadOnly: o.ReadOnly, Decide: o.Decide, Log: log}).Stdio(ctx, os.Stdin, stdout)
	}
	if err != nil {
		return err
	}
	maintained, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		opened.runner.Maintain(maintained, fmt.Sprintf("mcp[%d]", os.Getpid()), func(err error) { log.ErrorContext(ctx, "runs cannot be recovered", "error", err.Error()) })
	})
	defer func() {
		stop()
		done.Wait()
		err = errors.Join(err, opened.Close())
	}()
	server := opened.controlPlane(log, mcpserver.Options{ReadOnly: o.ReadOnly, Decide: o.Decide})
	if o.HTTP == "" {
		return server.Stdio(ctx, os.Stdin, stdout)
	}
	return s.serveMCP(ctx, opened, server, o, log, announce)
}

// serveMCP serves the control plane alone over HTTP, by the rules of the daemon.
func (s *stop) serveMCP(ctx context.Context, opened *session, server *mcpserver.Server, o cli.MCPOptions, log *slog.Logger, announce func(cli.Listening) error) error {
	config, err := opened.runner.Serving()
	if err != nil {
		return err
	}
	told := cli.Listening{Untrusted: opened.runner.Untrusted()}
	tokens, err := opened.tokens(config, &told)
	if err != nil {
		return err
	}
	listener, addr, err := bind("--http", o.HTTP)
	if err != nil {
		return err
	}
	told.Addr = addr
	site := opened.site(web.Options{Peer: opened.peers(), Tokens: tokens, Hosts: config.Hosts, Log: log, Trace: traced, Folders: foldersOf("", opened.runner.Workspace), MCP: server.Handler(), Only: "mcp"})
	served := make(chan error, 1)
	go func() { served <- site.Serve(listener) }()
	defer site.Close(s.patience)
	if err := announce(told); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return nil
	}
}

// controlPlane is the MCP server over the runs of a session. o says what is offered.
func (s *session) controlPlane(log *slog.Logger, o mcpserver.Options) *mcpserver.Server {
	o.Control, o.Version, o.Folders, o.Log = s.control(), build.Version, []string{s.runner.Workspace}, log
	return mcpserver.New(o)
}

func (s *stop) openControlled(ctx context.Context, o cli.MCPOptions) (*session, error) {
	workspace := cmp.Or(o.Workspace, os.Getenv("TIPSTAFF_WORKSPACE"))
	if workspace == "" {
		if !isWorkspace(".") {
			return nil, tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "no workspace was named, and the server was started in a folder that is none").
				WithHint("have the client start the server with --workspace DIR, or with TIPSTAFF_WORKSPACE set: a folder with a tipstaff.yaml")
		}
		workspace = "."
	}
	allowed := []string{}
	for _, dir := range o.AllowDirs {
		dir, err := folder(dir)
		if err != nil {
			return nil, err
		}
		allowed = append(allowed, dir)
	}
	return s.openAs(ctx, cli.OpenOptions{Workspace: workspace, Store: o.Store, Blobs: o.Blobs, Engine: o.Engine, ReadOnly: o.ReadOnly, MaxRuns: o.MaxRuns}, runner.Config{Origin: tipstaff.OriginSupervisor, AllowDirs: allowed})
}

// isWorkspace reports whether a folder is one in which something was run, or can be.
func isWorkspace(dir string) bool {
	for _, name := range []string{storeFolder, "tipstaff.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// control is the control plane over the runs of a session.
func (s *session) control() tipstaff.Control {
	return tipstaff.Control{Runs: s.Service(), Now: time.Now, Guard: s.runner.MayDrive, Follow: s.runner.Changed, Present: present, Elicits: s.runner.Elicits,
		Workspace: s.runner.Workspace, Page: s.page}
}
