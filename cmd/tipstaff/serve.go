package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/mcpserver"
	"github.com/tipstaff/tipstaff/rpc"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/web"
	"github.com/tipstaff/tipstaff/web/page"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// serve is the daemon: the runner of a workspace behind an HTTP and a gRPC server.
func (s *stop) serve(ctx context.Context, o cli.ServeOptions, announce func(cli.Listening) error) (err error) {
	encryption, err := tlsConfig(o)
	if err != nil {
		return err
	}
	workspace, err := folder(o.Open.Workspace)
	if err != nil {
		return err
	}
	config, err := runner.New(runner.Config{Workspace: workspace}).Serving()
	if err != nil {
		return err
	}
	origin := tipstaff.OriginDaemon
	if o.Open.Engine != "" {
		origin = tipstaff.OriginEngine
	}
	library, err := openLibrary(o.Pipelines, o.DefaultPipeline)
	if err != nil {
		return err
	}
	opened, err := s.openAs(ctx, o.Open, runner.Config{Origin: origin, Serves: true, Pipelines: library.folders(), Grace: o.ShutdownTimeout, MaxDriving: config.MaxDriving, Users: len(config.Tokens)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	told := cli.Listening{TLS: encryption != nil, Untrusted: opened.runner.Untrusted()}
	tokens, err := opened.tokens(config, &told)
	if err != nil {
		return err
	}
	for _, dir := range library.folders() {
		if err := ws.NoteServed(filepath.Join(workspace, storeFolder), dir); err != nil {
			return unusable(err)
		}
	}
	listener, addr, err := bind("--grpc-addr", o.GRPCAddr)
	if err != nil {
		return err
	}
	told.GRPCAddr = addr
	pages, addr, err := bind("--addr", o.Addr)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	told.Addr = addr
	log := logTo(o.JSON)
	peers := opened.peers()
	server := rpc.New(opened.Service(), opened.runner.Hosts(), rpc.Options{
		Peer: peers, Tokens: tokens, Pipelines: library.pipelines(), Default: o.DefaultPipeline, TLS: encryption, Log: log, Trace: traced,
		Folders: foldersOf(o.Pipelines, workspace),
	})
	seen := web.Options{Peer: peers, Tokens: tokens, Hosts: config.Hosts, TLS: encryption, Log: log, Trace: traced, Folders: foldersOf(o.Pipelines, workspace),
		MCP: opened.controlPlane(log, mcpserver.Options{}).Handler()}
	if !o.NoPage {
		name := opened.pageHost(pages.Addr())
		seen.Hosts = append(slices.Clip(seen.Hosts), name...)
		seen.Page = page.New(opened.control(), page.Options{Host: strings.Join(name, ""), Tokens: tokens, Version: build.Version, Status: web.Status, Export: runner.Export, Log: log,
			Sessions: opened.runner.Sessions(), Daemon: opened.daemon(time.Now(), config.MaxDriving), Tools: opened.runner.Tools(), Memory: opened.Memory()})
		told.Page = pageOf(seen.Page, &told, tokens)
	}
	site := opened.site(seen)
	// Whoever followed these runs before finds them driven, not left: nobody is answered
	// until they are. What servers share waits in the store for any of them.
	if opened.runner.Pool == nil {
		if told.TakenUp, err = opened.runner.TakeUp(ctx, tipstaff.OriginDaemon); err != nil {
			return err
		}
	}
	defer s.beforeStop(func() {
		site.Quiesce()
		server.Quiesce()
	})()
	failing := func(what string) func(error) {
		return func(err error) { log.ErrorContext(ctx, what, "error", err.Error()) }
	}
	go opened.runner.Expire(ctx, opened.runner.Origin, failing("a gate has expired and its run cannot go on"))
	go opened.runner.Maintain(ctx, fmt.Sprintf("serve[%d]", os.Getpid()), failing("runs cannot be recovered"))
	go repeat(ctx, collectEvery, opened.collect, failing("payloads that nothing names any more cannot be removed"))
	if opened.runner.Pool != nil {
		if n, err := opened.runner.OtherKeys(ctx); err == nil && n > 0 {
			log.WarnContext(ctx, "runs were begun with other keys, and are left to servers that have those: all machines of a store need the same .tipstaff/keys", "runs", n)
		}
		go opened.runner.Share(ctx, failing("runs that wait for a server cannot be driven"))
	}
	served := make(chan error, 4)
	go func() {
		if err := opened.store.Fallen(ctx); err != nil { // what it drove is for the next, which cannot take it while this process lives
			served <- unusable(err)
		}
	}()
	go func() { served <- server.Serve(listener) }()
	go func() { served <- site.Serve(pages) }()
	if opened.engine != nil {
		working, endWork := context.WithCancel(ctx)
		var worker sync.WaitGroup
		worker.Go(func() {
			if err := opened.work(working, config.MaxDriving, o.ShutdownTimeout, failing("the engine cannot be told of runs that wait for it")); err != nil {
				served <- unusable(err)
			}
		})
		defer worker.Wait()
		defer endWork()
	}
	defer func() {
		var both sync.WaitGroup
		both.Go(func() { site.Close(s.patience) })
		both.Go(func() { server.Close(s.patience) })
		both.Wait()
	}()
	forget, err := opened.tellPage(told)
	if err != nil {
		return unusable(err)
	}
	defer forget()
	if err := announce(told); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		opened.runner.Drain() // hosts may still bring what their calls came to
		return nil
	}
}

// collectEvery is how often a server removes payloads that nothing names: what was stored for
// a request that came to nothing.
const collectEvery = time.Hour

// repeat does something again and again until ctx ends. failed is told what goes wrong.
func repeat(ctx context.Context, pause time.Duration, do func(context.Context) error, failed func(error)) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

func (s *session) collect(ctx context.Context) error {
	_, err := s.store.Collect(ctx)
	return err
}

// pageOf says where the page is: by a link that signs in who owns the token that this
// workspace made itself, else by its address. A socket is nothing that a browser can open.
func pageOf(p web.Page, told *cli.Listening, tokens *tipstaff.Tokens) func() string {
	if strings.HasPrefix(told.Addr, "unix:") {
		return nil
	}
	at := "http://" + p.At(told.Addr)
	if told.TLS {
		at = "https://" + told.Addr
	}
	return func() string {
		path := "/ui/"
		if own := tokens.BearersOf("http", localUser); told.TokenFile != "" && len(own) == 1 {
			path, _ = p.Code(own[0])
		}
		return at + path
	}
}

// pageHost is a name for the page that only those know who may read the keys of this store,
// where browsers find it: they take what ends on .localhost for 127.0.0.1 and ::1, and tell
// cookies of one such name from those of another. None: it listens elsewhere.
func (s *session) pageHost(addr net.Addr) (name []string) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() && !tcp.IP.Equal(net.IPv4(127, 0, 0, 1)) && !tcp.IP.Equal(net.IPv6loopback) {
		return nil
	}
	return []string{hex.EncodeToString(s.store.Secret("host of the page")[:10]) + ".localhost"}
}

// bind listens where a flag says, and tells where that is.
func bind(flag, addr string) (net.Listener, string, error) {
	l, err := listen(addr)
	if err != nil {
		hint := flag + " takes HOST:PORT, as in 127.0.0.1:8080"
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "is another daemon running? " + flag + " names another address"
		}
		return nil, "", &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: err.Error(), Err: err, Command: hint}
	}
	if l.Addr().Network() == "unix" {
		return l, "unix:" + l.Addr().String(), nil
	}
	return l, l.Addr().String(), nil
}

// daemon tells of this process to whoever looks at its page.
func (s *session) daemon(started time.Time, places int) func(context.Context) (page.Daemon, error) {
	return func(ctx context.Context) (page.Daemon, error) {
		d := page.Daemon{Started: started, Store: s.dir, Keys: s.store.Keys(), Places: places}
		d.Driving, d.Queued = s.runner.Load()
		keys, err := s.store.PublicKeys(ctx)
		for _, k := range keys {
			d.Trusted = append(d.Trusted, k.ID().String())
		}
		for _, name := range []string{"tipstaff.db", "tipstaff.db-wal"} {
			if info, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
				d.Size += info.Size()
			}
		}
		return d, err
	}
}

// present tells whether a directory is there.
func present(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// foldersOf are the folders of a daemon, the inner ones first.
func foldersOf(pipelines, workspace string) []string {
	all := []string{workspace}
	if dir, err := filepath.Abs(pipelines); err == nil && pipelines != "" {
		all = append(all, dir)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// logTo tells of calls on standard error.
func logTo(asJSON bool) *slog.Logger {
	if asJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// traced takes a call into the trace of whoever makes it.
func traced(ctx context.Context, get func(string) string) context.Context {
	parent := get("traceparent")
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": get("tracestate")})
}

// tlsConfig reads certificates; nil: plain text.
func tlsConfig(o cli.ServeOptions) (*tls.Config, error) {
	if o.TLSCert == "" {
		return nil, nil
	}
	own, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	c := &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	if err == nil && o.TLSClientCA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs, err = authorities(o.TLSClientCA)
	}
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: "the certificates cannot be used: " + err.Error(), Err: err}
	}
	return c, nil
}

// authorities are those whose certificates a PEM file holds.
func authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// library is a folder of pipelines.
type library struct{ dir string }

// extensions of pipelines, the likeliest first.
var extensions = []string{".yaml", ".yml", ".json"}

// openLibrary looks whether the folder is there, and has the default. Without a folder
// there are no pipelines.
func openLibrary(dir, standard string) (*library, error) {
	if dir == "" {
		return nil, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	l := &library{dir}
	if _, err := l.Names(); err != nil {
		return nil, err
	}
	if standard != "" {
		if _, err := l.File(standard); err != nil {
			return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: err.Error(), Err: err}
		}
	}
	return l, nil
}

// folders are those of the library; a nil one has none.
func (l *library) folders() []string {
	if l == nil {
		return nil
	}
	return []string{l.dir}
}

// pipelines are those of the library; nil: there are none.
func (l *library) pipelines() rpc.Pipelines {
	if l == nil {
		return nil
	}
	return l
}

// Names implements [rpc.Pipelines].
func (l *library) Names() ([]string, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: "the pipelines cannot be read: " + err.Error(), Err: err}
	}
	var names []string
	for _, e := range entries {
		for _, extension := range extensions {
			if name, ok := strings.CutSuffix(e.Name(), extension); ok && !e.IsDir() {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// File implements [rpc.Pipelines]. The folder is a fence: no name leads out of it.
func (l *library) File(name string) (string, error) {
	for _, extension := range extensions {
		if !filepath.IsLocal(name+extension) || strings.ContainsAny(name, `/\`) {
			break
		}
		file := filepath.Join(l.dir, name+extension)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", tipstaff.Errorf(tipstaff.PipelineNotFound, "there is no pipeline %q", name)
}
