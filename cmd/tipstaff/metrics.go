package main

import (
	"github.com/tipstaff/tipstaff/telemetry"
	"github.com/tipstaff/tipstaff/web"
)

// site is the HTTP server of a session, with counters of what it, the runner and the store do.
func (s *session) site(o web.Options) *web.Server {
	o.Version = web.Version{Version: build.Version, Commit: build.Commit, Go: build.Go}
	o.Load, o.Ready, o.Lacks, o.Untrusted = s.runner.Load, s.runner.Ready, s.runner.Lacks, s.runner.Untrusted
	var site *web.Server
	streams := []telemetry.Number{
		{Name: "tipstaff_sse_subscribers", Help: "Streams of events that are open.", Now: func() float64 { return float64(site.Stats().Subscribers) }},
		{Name: "tipstaff_sse_sent_total", Help: "Records that streams have sent.", Total: true, Now: func() float64 { return float64(site.Stats().Sent) }},
		{Name: "tipstaff_sse_dropped_total", Help: "Records that readers were too slow to be sent at once.", Total: true, Now: func() float64 { return float64(site.Stats().Dropped) }},
	}
	o.Metrics = s.telemetry.Counters(append(append(streams, s.driving()...), s.storing()...)...)
	site = web.New(s.control(), o)
	return site
}

// driving is what this process does, and what waits for it.
func (s *session) driving() []telemetry.Number {
	return []telemetry.Number{
		{Name: "tipstaff_runs_driving", Help: "Runs that this process drives.", Now: func() float64 { n, _ := s.runner.Load(); return float64(n) }},
		{Name: "tipstaff_runs_queued", Help: "Runs that wait for their turn, of all servers that share a store.", Now: func() float64 { _, n := s.runner.Load(); return float64(n) }},
		{Name: "tipstaff_queue_oldest_seconds", Help: "How long the first run has waited in the queue that servers share.", Now: func() float64 {
			since := s.runner.Standing().Since
			if since.IsZero() {
				return 0
			}
			return max(0, s.runner.Now().Sub(since).Seconds())
		}},
		{Name: "tipstaff_drives_begun_total", Help: "Drives that this process has begun.", Total: true, Now: func() float64 { return float64(s.runner.Drives().Begun) }},
		{Name: "tipstaff_drives_ended_total", Help: "Drives that this process has ended.", Total: true, Now: func() float64 { return float64(s.runner.Drives().Ended) }},
		{Name: "tipstaff_leases_lost_total", Help: "Drives that ended because another process had taken the run.", Total: true, Now: func() float64 { return float64(s.runner.Drives().Fenced) }},
	}
}

// storing is how the store answers.
func (s *session) storing() []telemetry.Number {
	return []telemetry.Number{
		{Name: "tipstaff_store_up", Help: "1: the store answers.", Now: func() float64 {
			if s.runner.Ready() != nil {
				return 0
			}
			return 1
		}},
		{Name: "tipstaff_store_answer_seconds", Help: "How long the database took to answer when it was last looked at.", Now: func() float64 { return s.runner.Standing().Took.Seconds() }},
		{Name: "tipstaff_commits_total", Help: "Transactions that this process has committed.", Total: true, Now: func() float64 { return float64(s.store.Stats().Commits) }},
		{Name: "tipstaff_commit_seconds_total", Help: "How long they took, together.", Total: true, Now: func() float64 { return s.store.Stats().Took.Seconds() }},
		{Name: "tipstaff_store_untold", Help: "Commits whose callers are yet to be told.", Now: func() float64 { return float64(s.store.Stats().Untold) }},
	}
}
