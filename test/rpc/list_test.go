package rpc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff/pb"
)

// Runs, threads and interrupts are listed by pages, each user's own.
func TestListsInPages(t *testing.T) {
	b := newBed(t)
	alice, bob, root := b.as("alice"), b.as("bob"), b.as("root")
	var asking []string
	for range 3 {
		asking = append(asking, alice.paused().RunId)
	}
	bobs := bob.paused().RunId
	done := alice.create(straight)
	alice.execute(done)

	var found []string
	for token := ""; ; {
		page, err := alice.ListInterrupts(alice.ctx(), &pb.ListInterruptsRequest{PageSize: 2, PageToken: token})
		if err != nil || page.Total != 3 || page.ByKind["confirmation"] != 3 {
			t.Fatal(page, err)
		}
		for _, p := range page.Interrupts {
			if found = append(found, p.RunId); p.UserId != "alice" || p.Status != "awaiting_decision" || !p.Interrupt.Open || p.Interrupt.Shown == nil {
				t.Errorf("%v", p)
			}
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if !slices.Equal(found, asking) {
		t.Errorf("%v wait, and %v are listed", asking, found)
	}
	if all, err := root.ListInterrupts(root.ctx(), &pb.ListInterruptsRequest{}); err != nil || all.Total != 4 || all.Interrupts[3].RunId != bobs {
		t.Errorf("%v, %v", all, err)
	}
	runs, err := alice.ListRuns(alice.ctx(), &pb.ListRunsRequest{PageSize: 2})
	if err != nil || runs.Total != 4 || len(runs.Runs) != 2 || runs.Runs[0].RunId != done.RunId || runs.Runs[0].Status != "completed" || runs.Runs[0].EndedAt == nil {
		t.Errorf("%v, %v", runs, err)
	}
	runs, err = alice.ListRuns(alice.ctx(), &pb.ListRunsRequest{PageToken: runs.NextPageToken, Status: []string{"awaiting_decision"}})
	if err != nil || runs.Total != 3 || len(runs.Runs) != 2 || runs.Runs[1].RunId != asking[0] || runs.NextPageToken != "" {
		t.Errorf("%v, %v", runs, err)
	}
	threads, err := alice.ListThreads(alice.ctx(), &pb.ListThreadsRequest{PageSize: 1})
	if err != nil || len(threads.Threads) != 1 || threads.Threads[0].Head.RunId != done.RunId || threads.NextPageToken != done.RunId {
		t.Errorf("%v, %v", threads, err)
	}
	if threads, err = alice.ListThreads(alice.ctx(), &pb.ListThreadsRequest{PageToken: threads.NextPageToken}); err != nil || len(threads.Threads) != 3 {
		t.Errorf("%v, %v", threads, err)
	}
	long := strings.Repeat("x", 1<<20)
	many := 10_000
	if testing.Short() {
		many = 1_000 // the detector takes seconds for each thousand
	}
	var problems strings.Builder
	for i := range many {
		fmt.Fprintf(&problems, "  - {name: a%d, nonsense%d: 1}\n", i, i)
	}
	for name, f := range map[string]func() error{
		"too long a page": func() error { _, err := alice.ListRuns(alice.ctx(), &pb.ListRunsRequest{PageSize: 201}); return err },
		"a page of minus 1": func() error {
			_, err := alice.ListThreads(alice.ctx(), &pb.ListThreadsRequest{PageSize: -1})
			return err
		},
		"no token": func() error {
			_, err := alice.ListInterrupts(alice.ctx(), &pb.ListInterruptsRequest{PageToken: "2"})
			return err
		},
		"no kind": func() error {
			_, err := alice.ListInterrupts(alice.ctx(), &pb.ListInterruptsRequest{Kinds: []string{long}})
			return err
		},
		"thousands of problems": func() error {
			_, err := alice.CreateEnvelope(alice.ctx(), &pb.CreateEnvelopeRequest{Pipeline: document("name: p\nagents:\n" + problems.String())})
			return err
		},
		"a long answer": func() error {
			_, err := alice.resume(&pb.ResumeRequest{Ref: byRun(asking[0]), Response: &pb.InterruptResponse{Decision: proto.String(long)}})
			return err
		},
	} {
		err := f()
		if status.Code(err) != codes.InvalidArgument || proto.Size(status.Convert(err).Proto()) > 8<<10 {
			t.Errorf("%s: %d bytes: %.200s", name, proto.Size(status.Convert(err).Proto()), fmt.Sprint(err))
		}
	}
}
