// Command client does over gRPC what the command line does not: it serves agents, and it
// edits drafts of pipelines. make.sh makes runs with it. The address and the token of the
// server are those of TIPSTAFF_ADDRESS and TIPSTAFF_TOKEN.
//
//	client host ID AGENT EFFECT [ANSWER [N]] serves an agent: prints the id of each call and,
//	                                        with an answer, reserves what it uses and answers;
//	                                        with N its first call fails, with so many bytes of text
//	client bring ID AGENT EFFECT CALL JSON  registers as such a host and brings a result
//	client METHOD JSON                      calls a method of CoreService and prints each answer
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff/pb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	conn, err := grpc.NewClient(os.Getenv("TIPSTAFF_ADDRESS"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+os.Getenv("TIPSTAFF_TOKEN"))
	core := pb.NewCoreServiceClient(conn)
	switch {
	case len(args) >= 4 && len(args) <= 6 && args[0] == "host":
		return host(ctx, core, args[1:4], args[4:])
	case len(args) == 6 && args[0] == "bring":
		return bring(ctx, core, args[1:4], args[4], args[5])
	case len(args) == 2:
		return call(ctx, core, args[0], args[1])
	}
	return fmt.Errorf("there is no such command: %q", args)
}

// register begins to serve an agent as a host: its id, the agent's name and effect class.
func register(ctx context.Context, core pb.CoreServiceClient, as []string) (pb.CoreService_ServeAgentsClient, error) {
	stream, err := core.ServeAgents(ctx)
	if err != nil {
		return nil, err
	}
	return stream, stream.Send(&pb.HostMessage{Message: &pb.HostMessage_Register{Register: &pb.Register{
		HostId: as[0], Version: "1", Agents: []*pb.HostedAgent{{Name: as[1], Effect: as[2]}}}}})
}

// tokens are what an answered call reserves and then says it has used.
const tokens = 40

func host(ctx context.Context, core pb.CoreServiceClient, as, answer []string) error {
	stream, err := register(ctx, core, as)
	if err != nil {
		return err
	}
	text := 0
	if len(answer) == 2 {
		if text, err = strconv.Atoi(answer[1]); err != nil {
			return err
		}
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		var reply *pb.HostMessage
		switch m := m.Message.(type) {
		case *pb.ServerMessage_Call:
			fmt.Println(m.Call.CallId)
			switch {
			case text > 0:
				reply = &pb.HostMessage{Message: &pb.HostMessage_Result{Result: &pb.Result{CallId: m.Call.CallId,
					Error: &pb.AgentError{Code: "broken", Message: strings.Repeat("It does not work. ", text/18), Retryable: true}}}}
				text = 0
			case len(answer) > 0:
				reply = &pb.HostMessage{Message: &pb.HostMessage_Reserve{Reserve: &pb.Reserve{CallId: m.Call.CallId, LlmCalls: 1, Tokens: tokens}}}
			}
		case *pb.ServerMessage_Grant:
			if !m.Grant.Granted {
				return fmt.Errorf("nothing is granted: %v", m.Grant)
			}
			reply = result(m.Grant.CallId, answer[0])
			reply.GetResult().Usage = &pb.Usage{LlmCalls: 1, TokensIn: tokens - 10, TokensOut: 10}
		}
		if reply != nil {
			if err := stream.Send(reply); err != nil {
				return err
			}
		}
	}
}

func bring(ctx context.Context, core pb.CoreServiceClient, as []string, callID, output string) error {
	stream, err := register(ctx, core, as)
	if err != nil {
		return err
	}
	if err := stream.Send(result(callID, output)); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if ack := m.GetAck(); ack != nil && ack.CallId == callID {
			fmt.Println(ack)
			return nil
		}
	}
}

func result(callID, output string) *pb.HostMessage {
	return &pb.HostMessage{Message: &pb.HostMessage_Result{Result: &pb.Result{CallId: callID, Output: []byte(output)}}}
}

// call calls a method with a request that is written as JSON.
func call(ctx context.Context, core pb.CoreServiceClient, method, request string) error {
	switch method {
	case "CreateEnvelope":
		return unary(ctx, request, new(pb.CreateEnvelopeRequest), core.CreateEnvelope)
	case "UpdateEnvelope":
		return unary(ctx, request, new(pb.UpdateEnvelopeRequest), core.UpdateEnvelope)
	case "ExecuteAgent":
		return unary(ctx, request, new(pb.ExecuteAgentRequest), core.ExecuteAgent)
	case "ExecutePipeline":
		in := new(pb.ExecuteRequest)
		if err := protojson.Unmarshal([]byte(request), in); err != nil {
			return err
		}
		stream, err := core.ExecutePipeline(ctx, in)
		for err == nil {
			var e *pb.ExecutionEvent
			if e, err = stream.Recv(); err != nil {
				break
			}
			fmt.Println(protojson.Format(e))
			if e.Final {
				return nil
			}
		}
		return err
	}
	return fmt.Errorf("there is no method %s here", method)
}

func unary[In, Out proto.Message](ctx context.Context, request string, in In, method func(context.Context, In, ...grpc.CallOption) (Out, error)) error {
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		return err
	}
	out, err := method(ctx, in)
	if err != nil {
		return err
	}
	fmt.Println(protojson.Format(out))
	return nil
}
