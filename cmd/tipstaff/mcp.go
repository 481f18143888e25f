package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/mcpserver"
	"github.com/tipstaff/tipstaff/runner"
)

// mcp serves the runs of a workspace to an MCP client on standard input and output.
func (s *stop) mcp(ctx context.Context, o cli.MCPOptions) (err error) {
	stdout, err := mcpserver.TakeStdout()
	if err != nil {
		return err
	}
	server, closeServer, err := s.controlPlane(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	return server.Stdio(ctx, os.Stdin, stdout)
}

// controlPlane is the MCP server over the runs of a workspace. What keeps it from them is
// told by its tools: a client shows that, and not why a server does not start.
func (s *stop) controlPlane(ctx context.Context, o cli.MCPOptions) (*mcpserver.Server, func() error, error) {
	options := mcpserver.Options{Version: version, ReadOnly: o.ReadOnly, Log: logTo(o.JSON)}
	opened, err := s.openControlled(ctx, o)
	if e := (*tipstaff.Error)(nil); errors.As(err, &e) {
		options.Unresolved = e
		return mcpserver.New(options), func() error { return nil }, nil
	}
	if err != nil {
		return nil, nil, err
	}
	options.Control, options.Folders = opened.control(), []string{opened.runner.Workspace}
	if o.ReadOnly {
		return mcpserver.New(options), opened.Close, nil
	}
	maintained, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		opened.runner.Maintain(maintained, "tipstaff mcp", func(err error) {
			options.Log.ErrorContext(ctx, "the runs of processes that have died cannot be recovered", "error", err.Error())
		})
	}()
	return mcpserver.New(options), func() error {
		stop()
		<-done
		return opened.Close()
	}, nil
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
	return s.openAs(ctx, cli.OpenOptions{Workspace: workspace, ReadOnly: o.ReadOnly, MaxRuns: o.MaxRuns}, runner.Config{Origin: tipstaff.OriginSupervisor, AllowDirs: allowed})
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
	return tipstaff.Control{Runs: s.Service(), Now: time.Now, Guard: s.runner.MayDrive, Follow: s.runner.Changed, Present: isFolder}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
