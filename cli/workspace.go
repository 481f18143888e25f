package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// ServeOptions are what a daemon is started with.
type ServeOptions struct {
	Open            OpenOptions
	Addr            string // for HTTP
	GRPCAddr        string
	Pipelines       string // a folder; "": clients can name none
	DefaultPipeline string // of those who name none; "": they must
	TLSCert, TLSKey string // files; "": plaintext
	TLSClientCA     string // a file; "": clients need no certificate
	ShutdownTimeout time.Duration
	NoPage          bool
	JSON            bool // of the log
}

// Listening is where a daemon can be reached.
type Listening struct {
	Addr      string `json:"addr"` // for HTTP
	GRPCAddr  string `json:"grpc_addr"`
	TLS       bool   `json:"tls"`
	TokenFile string `json:"token_file,omitempty"`         // that holds the token, where the manifest names none
	Revoked   string `json:"revoked_token_file,omitempty"` // that an earlier version had left in the workspace, and that was removed
	TakenUp   int    `json:"taken_up"`                     // runs that an earlier daemon was driving
	Untrusted string `json:"untrusted,omitempty"`          // why runs wait: the workspace is not trusted
	// Page is where people open the web page, with a code that signs them in where the
	// daemon made the token itself. nil: there is no page.
	Page func() string `json:"-"`
}

// SigninLink opens the web page of a daemon and signs in whoever opens it, once.
type SigninLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func newServe(a *app) *cobra.Command {
	var (
		o               ServeOptions
		plaintext, link bool
		token, rotate   bool
	)
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the workspace to other programs, over HTTP and gRPC",
		Long: `Serve the workspace to other programs, over HTTP and gRPC, until the process is
told to stop.

Every call needs a bearer token: one of serve.tokens in tipstaff.yaml or, if there
are none, one that is made when it is first needed and kept for this user, outside of
the workspace: --token prints it, and --rotate makes another.
Away from this machine the connection must be encrypted.

SIGINT and SIGTERM stop in good order: runs are interrupted, not cancelled, and the
next daemon of this workspace takes them up again. Daemons of one database (--store)
share its runs: what one leaves, when it stops or dies, another drives on. A second
signal stops at once.`,
		Example: `  tipstaff serve --pipelines ./pipelines --default-pipeline review-loop
  tipstaff serve --grpc-addr unix:/run/user/1000/tipstaff.sock
  tipstaff serve --addr 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem
  tipstaff serve --store postgres://user@host/name
  tipstaff serve --link
  curl -H "Authorization: Bearer $(tipstaff serve --token)" http://127.0.0.1:8080/runs`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if token || rotate {
				return a.serveToken(cmd, link, rotate)
			}
			if err := o.check(plaintext); err != nil {
				return err
			}
			o.Open, o.JSON = OpenOptions{Workspace: a.workspaceDir(), Store: a.storeAddress(), Blobs: a.blobsAddress(), Engine: a.engineAddress(), Skills: a.skills}, a.json
			if link {
				return a.signinLink(cmd.Context(), o)
			}
			if err := a.mustTrust(); err != nil && a.asksFirst() { // elsewhere it serves, and its runs wait
				return err
			}
			return a.env.Serve(cmd.Context(), o, a.announce)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Addr, "addr", "127.0.0.1:8080", "`address` for HTTP; port 0 picks one; unix:PATH is a Unix socket")
	f.StringVar(&o.GRPCAddr, "grpc-addr", "127.0.0.1:50051", "`address` for gRPC; port 0 picks one; unix:PATH is a Unix socket")
	f.StringVar(&o.Pipelines, "pipelines", "", "a `folder` of pipelines that clients can run by name: NAME.yaml, .yml or .json")
	f.StringVar(&o.DefaultPipeline, "default-pipeline", "", "the pipeline of clients that name none, by its `name` in that folder")
	f.StringVar(&o.TLSCert, "tls-cert", "", "certificate of the server, a PEM `file`")
	f.StringVar(&o.TLSKey, "tls-key", "", "its key, a PEM `file`")
	f.StringVar(&o.TLSClientCA, "tls-client-ca", "", "let in only clients with a certificate of these authorities, a PEM `file`")
	f.BoolVar(&o.NoPage, "no-page", false, "leave out the web page")
	f.BoolVar(&link, "link", false, "serve nothing: ask the daemon at --addr for a link that signs in to its web page, once")
	f.BoolVar(&token, "token", false, "serve nothing: print the token that this workspace has made for its daemon")
	f.BoolVar(&rotate, "rotate", false, "serve nothing: make another token, and print it; a daemon that runs refuses the one before at once")
	f.BoolVar(&plaintext, "allow-plaintext", false, "let others on the network reach it without encryption")
	f.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", 30*time.Second, "how long calls in flight are awaited when it stops")
	_ = cmd.MarkFlagDirname("pipelines") // fails only for a flag that is not there
	a.skillsFlag(cmd)
	return cmd
}

// check refuses what must not even begin to listen.
func (o *ServeOptions) check(plaintext bool) error {
	for _, listens := range []struct{ flag, addr, like string }{{"--addr", o.Addr, "127.0.0.1:8080"}, {"--grpc-addr", o.GRPCAddr, "127.0.0.1:50051"}} {
		host, _, err := net.SplitHostPort(listens.addr)
		socket := tipstaff.SocketPath(listens.addr) != ""
		switch {
		case err != nil && !socket:
			return &usageError{message: fmt.Sprintf("%s %s is not an address: %v", listens.flag, listens.addr, err), hint: "write host:port, like " + listens.like + ", or unix:PATH"}
		case socket && o.TLSCert != "":
			return &usageError{message: "a Unix socket does not leave this machine, and has no TLS"}
		case o.TLSCert == "" && !socket && !tipstaff.Loopback(host) && !plaintext:
			return &usageError{message: fmt.Sprintf("%s can be reached from elsewhere, and tokens would be sent in plain text", listens.addr),
				hint: "give --tls-cert and --tls-key, or --allow-plaintext if something else encrypts"}
		}
	}
	switch {
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return &usageError{message: "--tls-cert and --tls-key go together"}
	case o.TLSClientCA != "" && o.TLSCert == "":
		return &usageError{message: "--tls-client-ca needs --tls-cert and --tls-key"}
	case o.DefaultPipeline != "" && o.Pipelines == "":
		return &usageError{message: "--default-pipeline needs --pipelines, the folder that has it"}
	case o.ShutdownTimeout <= 0:
		return &usageError{message: "--shutdown-timeout must be more than 0"}
	}
	return nil
}

// serveToken prints the token that the workspace has made.
func (a *app) serveToken(cmd *cobra.Command, link, rotate bool) error {
	if link {
		return misuse(cmd, "--link goes without --token and --rotate")
	}
	secret, err := a.env.ServeToken(a.workspaceDir(), rotate)
	if err != nil {
		return err
	}
	if rotate {
		fmt.Fprintln(a.err, "this is the token from now on: the one before is refused, and whoever has signed in with it is signed out")
	}
	if a.json {
		return a.writeJSON(map[string]string{"token": secret})
	}
	_, err = fmt.Fprintln(a.out, secret)
	return err
}

// signinLink prints a link to the page of the daemon that runs already.
func (a *app) signinLink(ctx context.Context, o ServeOptions) error {
	got, err := a.env.SigninLink(ctx, o)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(got)
	}
	_, err = fmt.Fprintln(a.out, clean(got.URL))
	return err
}

// announce says where the daemon listens.
func (a *app) announce(l Listening) error {
	if a.json {
		return a.writeJSON(l)
	}
	how := "plain text"
	if l.TLS {
		how = "TLS"
	}
	if _, err := fmt.Fprintf(a.out, "http %s (%s)\ngrpc %s (%s)\n", clean(l.Addr), how, clean(l.GRPCAddr), how); err != nil {
		return err
	}
	if l.TokenFile != "" {
		fmt.Fprintf(a.err, "the token is in %s; tipstaff serve --token prints it\n", clean(l.TokenFile))
	}
	if l.Revoked != "" {
		fmt.Fprintf(a.err, "the token in %s was revoked and removed: runs could read it; give programs that had it the new one\n", clean(l.Revoked))
	}
	if l.Page != nil && a.env.StderrTTY { // a code in a log would let its readers in
		fmt.Fprintf(a.err, "the web page is at %s\n", clean(l.Page()))
	}
	if l.Untrusted != "" {
		fmt.Fprintf(a.err, "runs wait: %s; they go on when it is trusted: %s\n", clean(l.Untrusted), a.invocation("trust"))
	}
	if l.TakenUp > 0 {
		fmt.Fprintf(a.err, "%s taken up again\n", plural(l.TakenUp, "run"))
	}
	return nil
}

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the workspace, and what to do",
		Long: `Look for what is wrong with this workspace: damaged pages, missing or changed files,
keys that do not fit, rows and blobs that nobody names, permissions, disk space, the
clock, the manifest and the lock. Each finding says how bad it is, what and where it
is, and what to do. Nothing is changed, and a damaged database is read as far as it
goes. With --store it looks at the database, and checks the records of every run.

It does not prove what runs did: tipstaff verify RUN does. Exit code 1: something is
wrong.`,
		Example: "  tipstaff doctor\n  tipstaff doctor --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := a.env.Doctor(cmd.Context(), OpenOptions{Workspace: a.workspaceDir(), Store: a.storeAddress(), Blobs: a.blobsAddress(), Engine: a.engineAddress()})
			if err != nil {
				return err
			}
			slices.SortStableFunc(found, func(a, b tipstaff.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) }) // errors first
			for _, d := range found {
				if err := a.print(d, func() {
					fmt.Fprintf(a.out, "%s: %s: %s: %s; remedy: %s\n", d.Severity, d.Code, clean(d.Where), clean(d.Message), clean(d.Remedy))
				}); err != nil {
					return err
				}
			}
			wrong := slices.ContainsFunc(found, func(d tipstaff.Diagnostic) bool { return d.Severity != tipstaff.SeverityNote })
			if !wrong && !a.json {
				fmt.Fprintf(a.err, "nothing is wrong with %s\n", clean(a.workspaceDir()))
			}
			if wrong {
				err = status(exitFailed)
			}
			return err
		},
	}
}

func newBackup(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy the store to a new folder, also while runs go on",
		Long: `Copy the runs of this workspace, with their payloads and the keys, to a new folder
that is a workspace of its own: ls, verify and resume work there with --workspace.
The copy is of one moment, also while other processes write; a copy made by other
means (cp, rsync) need not be one. Runs that are under way are interrupted in it.

Beside the store it holds tipstaff.yaml and tipstaff.lock, and no other files of
the workspace. It holds the private keys: keep it as safe as the workspace.`,
		Example: "  tipstaff backup ../backups/monday\n  tipstaff ls --workspace ../backups/monday",
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.storeAddress() != "" {
				return &usageError{message: "backup copies the store of a folder, and the runs are in a database",
					hint: "back the database up: pg_dump --format=custom --file=FILE ADDRESS, or pg_basebackup with an archive of its log, and .tipstaff/keys apart from it; docs/scale.md says how"}
			}
			made, err := a.env.Backup(cmd.Context(), a.workspaceDir(), args[0])
			if err != nil {
				return err
			}
			return a.print(made, func() {
				fmt.Fprintf(a.out, "copied %s with %s, %s, the keys%s to %s\n", plural(int(made.Runs), "run"), plural(int(made.Records), "record"),
					plural(made.Blobs, "blob"), strings.Join(append([]string{""}, made.Files...), ", "), clean(made.Dir))
				if made.Missing > 0 {
					fmt.Fprintf(a.err, "%s missing in the workspace and in the copy: tipstaff doctor says which\n", plural(made.Missing, "blob"))
				}
				fmt.Fprintln(a.err, "it holds the private keys: keep it as safe as the workspace")
			})
		},
	}
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the formats and the protocols",
		Long: `Print which build this is, the newest formats that it writes, and the protocols that
it speaks. It reads all earlier formats. tipstaff --version prints one line.`,
		Example: `  tipstaff version
  tipstaff version --json`,
		RunE: func(*cobra.Command, []string) error {
			v := a.env.Version
			return a.print(v, func() {
				commit := v.Commit
				if v.Modified {
					commit += ", with changes"
				}
				a.printFields(
					field{"version", v.Version}, field{"commit", commit}, field{"date", v.Date}, field{"go", v.Go}, field{"system", v.OS + "/" + v.Arch},
					field{"formats", fmt.Sprintf("journal %d, rules %d, sqlite %d, postgres %d", v.Formats.Journal, v.Formats.Rules, v.Formats.SQLite, v.Formats.Postgres)},
					field{"grpc", strings.Join(v.Protocols.GRPC, ", ")}, field{"http", v.Protocols.HTTP}, field{"mcp", strings.Join(v.Protocols.MCP, ", ")},
				)
			})
		},
	}
}

// versionLine is what --version prints.
func versionLine(v VersionInfo) string {
	return tipstaff.Joined(" ", "tipstaff", v.Version, v.Commit, v.Go)
}

func newClassify(a *app) *cobra.Command {
	var manifest, now string
	cmd := &cobra.Command{
		Use:   "classify OLD NEW",
		Short: "Say whether a changed plan must be accepted again",
		Long: `Compare two plans and say whether the change is material: whether it goes beyond
what whoever accepted OLD has agreed to. Each reason names its rule. One of the
two may be -, for standard input.

The effect classes of tools come from the manifest; a tool that it does not have
counts as one that must not be called twice.

Exit code 9: the change is material. 0: it is not. Nothing is run or stored.`,
		Example: `  tipstaff classify plan.yaml revised.yaml
  git show HEAD:plan.yaml | tipstaff classify - plan.yaml --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.classify(cmd.Context(), args[0], args[1], manifest, now)
		},
	}
	cmd.Flags().StringVar(&now, "now", "", "look at deadlines from this `time`, like 2026-01-31T18:00:00Z (default the present)")
	cmd.Flags().StringVar(&manifest, "manifest", "", "the manifest `file` (default tipstaff.yaml of the workspace, if there is one)")
	return cmd
}

func (a *app) classify(ctx context.Context, from, to, manifest, now string) (err error) {
	var req tipstaff.ClassifyRequest
	if now != "" {
		if req.Now, err = time.Parse(time.RFC3339, now); err != nil {
			return &usageError{message: fmt.Sprintf("--now %q is not a time", now), hint: "write it like 2026-01-31T18:00:00Z"}
		}
	}
	if fromStdin(from, to, manifest) > 1 {
		return &usageError{message: "only one document can come from standard input"}
	}
	if req.Old, err = a.source(from); err != nil {
		return err
	}
	if req.New, err = a.source(to); err != nil {
		return err
	}
	if manifest != "" {
		m, err := a.source(manifest)
		if err != nil {
			return err
		}
		req.Manifest = &m
	}
	classifier, err := a.env.Classifier(a.workspaceDir())
	if err != nil {
		return err
	}
	found, err := classifier.Classify(ctx, req)
	if err != nil {
		return err
	}
	err = a.print(found, func() {
		if !found.Material {
			fmt.Fprintln(a.out, "not material")
			return
		}
		fmt.Fprintln(a.out, "material")
		for _, r := range found.Reasons {
			fmt.Fprintf(a.out, "  %s: %s\n", clean(r.Rule), clean(r.Detail))
		}
	})
	if err == nil && found.Material {
		err = status(exitMaterial)
	}
	return err
}
