package cli

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
)

// ServeOptions are what a daemon is started with.
type ServeOptions struct {
	Open            OpenOptions
	GRPCAddr        string
	Pipelines       string // a folder; "": clients can name none
	DefaultPipeline string // of those who name none; "": they must
	TLSCert, TLSKey string // files; "": plaintext
	TLSClientCA     string // a file; "": clients need no certificate
	ShutdownTimeout time.Duration
	JSON            bool // of the log
}

// Listening is where a daemon can be reached.
type Listening struct {
	GRPCAddr  string `json:"grpc_addr"`
	TLS       bool   `json:"tls"`
	TokenFile string `json:"token_file,omitempty"` // that holds the token, where the manifest names none
	TakenUp   int    `json:"taken_up"`             // runs that an earlier daemon was driving
}

type serveOptions struct {
	*app
	ServeOptions
	plaintext bool
}

func newServe(a *app) *cobra.Command {
	o := &serveOptions{app: a}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the workspace to other programs, over gRPC",
		Long: `Serve the workspace to other programs, over gRPC, until the process is told to
stop.

Every call needs a bearer token: one of serve.tokens in tipstaff.yaml or, if there
are none, the one in .tipstaff/serve.token, which is made when it is first needed.
Away from this machine the connection must be encrypted.

SIGINT and SIGTERM stop in good order: runs are interrupted, not cancelled, and the
next daemon of this workspace takes them up again. A second signal stops at once.`,
		Example: `  tipstaff serve --pipelines ./pipelines --default-pipeline review-loop
  tipstaff serve --grpc-addr 0.0.0.0:50051 --tls-cert cert.pem --tls-key key.pem`,
		Args:              needs(),
		ValidArgsFunction: completed(a),
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.GRPCAddr, "grpc-addr", "127.0.0.1:50051", "`address` for gRPC; port 0 picks one")
	f.StringVar(&o.Pipelines, "pipelines", "", "a `folder` of pipelines that clients can run by name: NAME.yaml, .yml or .json")
	f.StringVar(&o.DefaultPipeline, "default-pipeline", "", "the pipeline of clients that name none, by its `name` in that folder")
	f.StringVar(&o.TLSCert, "tls-cert", "", "certificate of the server, a PEM `file`")
	f.StringVar(&o.TLSKey, "tls-key", "", "its key, a PEM `file`")
	f.StringVar(&o.TLSClientCA, "tls-client-ca", "", "let in only clients with a certificate of these authorities, a PEM `file`")
	f.BoolVar(&o.plaintext, "allow-plaintext", false, "let others on the network reach it without encryption")
	f.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", 30*time.Second, "how long calls in flight are awaited when it stops")
	_ = cmd.MarkFlagDirname("pipelines") // fails only for a flag that is not there
	o.skillsFlag(cmd)
	return cmd
}

func (o *serveOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Open, o.JSON = OpenOptions{Workspace: o.workspaceDir(), Skills: o.skills}, o.json
	return o.env.Serve(ctx, o.ServeOptions, o.announce)
}

// check refuses what must not even begin to listen.
func (o *serveOptions) check() error {
	host, _, err := net.SplitHostPort(o.GRPCAddr)
	switch {
	case err != nil:
		return &usageError{message: fmt.Sprintf("--grpc-addr %s is no address: %v", o.GRPCAddr, err), hint: "write host:port, like 127.0.0.1:50051"}
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return &usageError{message: "--tls-cert and --tls-key go together"}
	case o.TLSClientCA != "" && o.TLSCert == "":
		return &usageError{message: "--tls-client-ca needs --tls-cert and --tls-key"}
	case o.TLSCert == "" && !loopback(host) && !o.plaintext:
		return &usageError{message: fmt.Sprintf("%s can be reached from elsewhere, and tokens would be sent in plain text", o.GRPCAddr),
			hint: "give --tls-cert and --tls-key, or --allow-plaintext if something else encrypts"}
	case o.DefaultPipeline != "" && o.Pipelines == "":
		return &usageError{message: "--default-pipeline needs --pipelines, the folder that has it"}
	case o.ShutdownTimeout <= 0:
		return &usageError{message: "--shutdown-timeout must be more than 0"}
	}
	return nil
}

// loopback reports whether only this machine can reach a host. A name may be
// anybody's, save one.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// announce says where the daemon listens.
func (o *serveOptions) announce(l Listening) error {
	if o.json {
		return o.writeJSON(l)
	}
	how := "plain text"
	if l.TLS {
		how = "TLS"
	}
	if _, err := fmt.Fprintf(o.out, "grpc %s (%s)\n", clean(l.GRPCAddr), how); err != nil {
		return err
	}
	if l.TokenFile != "" {
		fmt.Fprintf(o.err, "the token is in %s\n", clean(l.TokenFile))
	}
	if l.TakenUp > 0 {
		fmt.Fprintf(o.err, "%s taken up again\n", plural(l.TakenUp, "run"))
	}
	return nil
}
