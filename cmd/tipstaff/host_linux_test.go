package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipstaff/tipstaff/pb"
)

// agentHost is a program that serves the agent "judge": it says again on the first
// visit, and good on others. It dies once in the middle of a call, and has a child in
// a session of its own.
func agentHost() {
	if err := serveAgents(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveAgents() error {
	conn, err := grpc.NewClient(os.Getenv("TIPSTAFF_ADDRESS"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+os.Getenv("TIPSTAFF_TOKEN"))
	stream, err := pb.NewCoreServiceClient(conn).ServeAgents(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&pb.HostMessage{Message: &pb.HostMessage_Register{Register: &pb.Register{
		HostId: fmt.Sprint("host-", os.Getpid()), Agents: []*pb.HostedAgent{{Name: "judge", Effect: "read"}}}}})
	for err == nil {
		var m *pb.ServerMessage
		if m, err = stream.Recv(); err != nil || m.GetCall() == nil {
			continue
		}
		err = stream.Send(&pb.HostMessage{Message: &pb.HostMessage_Result{Result: judge(m.GetCall())}})
	}
	return err
}

func judge(call *pb.Call) *pb.Result {
	if err := os.Mkdir("died", 0o755); err == nil {
		fmt.Fprintln(os.Stderr, "out of order")
		os.Exit(9)
	}
	verdict := "good"
	if call.Visit == 1 {
		verdict = "again"
	}
	out, err := json.Marshal(map[string]any{"verdict": verdict, "redelivered": call.Redelivery})
	if err != nil {
		panic(err)
	}
	return &pb.Result{CallId: call.CallId, Output: out}
}

const remoteRounds = `-- remote.yaml --
name: remote
agents:
  - {name: work, stage_order: 1, default_next: judge, scripted: {answers: [{output: {}}]}}
  - name: judge
    stage_order: 2
    effect: read
    remote: {}
    routing_rules: [{condition: verdict, value: again, target: work}]
`

// TestHost loops through stages that a host does which the run has started, which
// dies once on the way, and of which nothing is left.
func TestHost(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, remoteRounds)
	r := w.Must(0, "run", "remote.yaml", "--unattended", "--host", "setsid sleep 300 & exec agenthost")
	run := w.runs()[0]
	if got, want := canonical(w, w.show(run).Outputs), `{"judge":{"redelivered":false,"verdict":"good"},"work":{}}`; got != want {
		t.Errorf("outputs %s, want %s", got, want)
	}
	for _, said := range []string{"setsid: out of order", "setsid: it ended: exit status 9; it is started again in 500ms"} {
		if !strings.Contains(r.Err, said) {
			t.Errorf("nobody said %q:\n%s", said, r.Err)
		}
	}
	if left := w.leftOver(run); len(left) > 0 {
		t.Errorf("processes of the run are still there: %v", left)
	}
	w.Must(0, "verify", run)
}

// TestNoHostInheritsTrust: whom a run trusts is not for its hosts to say.
func TestNoHostInheritsTrust(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, remoteRounds)
	w.Must(0, "run", "remote.yaml", "--unattended", "--host", "env >> seen; exec agenthost")
	if seen := w.Read("seen"); strings.Contains(seen, "TIPSTAFF_TRUST") || !strings.Contains(seen, "TIPSTAFF_RUN_ID") {
		t.Errorf("a host has\n%s", seen)
	}
}

// TestNoHost is told how a host finds the run, and how it ends without one.
func TestNoHost(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, strings.Replace(remoteRounds, "remote: {}", "remote: {wait_seconds: 1}", 1))
	r := w.Must(1, "run", "remote.yaml", "--unattended")
	r.Says(t, "agent_unavailable")
	if !strings.Contains(r.Err, "remote stages wait for hosts with TIPSTAFF_ADDRESS=127.0.0.1:") {
		t.Errorf("nobody says where: %s", r.Err)
	}
}
