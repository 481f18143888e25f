package rpc

import (
	"context"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// find is the pipeline run that a reference names: of an Envelope or a thread the
// newest, which is its head.
func (s *Server) find(ctx context.Context, ref *pb.RunRef) (tipstaff.Run, error) {
	switch r := ref.GetRef().(type) {
	case *pb.RunRef_EnvelopeId:
		return s.byEnvelope(ctx, "ref.envelope_id", r.EnvelopeId)
	case *pb.RunRef_ThreadId:
		if r.ThreadId == "" {
			return tipstaff.Run{}, invalid("ref.thread_id", "it is empty")
		}
		return s.head(ctx, tipstaff.ListRequest{Thread: r.ThreadId, Limit: 1}, func() error {
			return tipstaff.Errorf(tipstaff.RunNotFound, "there is no thread %q", r.ThreadId)
		})
	case *pb.RunRef_RunId:
		id, err := tipstaff.ParseID(r.RunId)
		if err != nil {
			return tipstaff.Run{}, invalid("ref.run_id", "%v", err)
		}
		run, err := s.svc.Get(ctx, id)
		return onlyPipeline(run, err)
	}
	return tipstaff.Run{}, invalid("ref", "name the run by envelope_id, thread_id or run_id")
}

// byEnvelope is the head of an Envelope. An Envelope has the id of its first run, so
// one that is not listed is either nobody's or another user's.
func (s *Server) byEnvelope(ctx context.Context, field, envelope string) (tipstaff.Run, error) {
	first, err := tipstaff.ParseID(strings.TrimPrefix(envelope, "env_"))
	if err != nil {
		return tipstaff.Run{}, invalid(field, "%q is not the id of an Envelope", envelope)
	}
	return s.head(ctx, tipstaff.ListRequest{Envelope: envelope, Limit: 1}, func() error {
		if _, err := s.svc.Get(ctx, first); tipstaff.CodeOf(err) == tipstaff.Forbidden {
			return err
		}
		return tipstaff.Errorf(tipstaff.RunNotFound, "there is no Envelope %s", envelope)
	})
}

func (s *Server) head(ctx context.Context, req tipstaff.ListRequest, none func() error) (tipstaff.Run, error) {
	page, err := s.svc.List(ctx, req)
	if err == nil && len(page.Runs) == 0 {
		err = none()
	}
	if err != nil {
		return tipstaff.Run{}, err
	}
	return onlyPipeline(page.Runs[0], nil)
}

func onlyPipeline(run tipstaff.Run, err error) (tipstaff.Run, error) {
	if err == nil && run.Pipeline == nil {
		err = tipstaff.Errorf(tipstaff.WrongState, "run %s is a %s, and no pipeline", run.ID, run.Program.Kind)
	}
	return run, err
}

// Pipelines are documents that clients can run by name.
type Pipelines interface {
	// Names are all of them.
	Names() ([]string, error)
	// File is the file of a name. An unknown name is pipeline_not_found.
	File(name string) (string, error)
}

// program is a document with what Start must know of it. Without a document it is
// that of the run.
type program struct {
	document []byte // that came over the wire
	name     string
	file     string // of the server, in place of a document
}

// given reports whether there is one.
func (p program) given() bool { return p.document != nil || p.file != "" }

// program is what a config names, if there is one.
func (s *Server) program(ctx context.Context, config *pb.PipelineConfig) (program, error) {
	switch source := config.GetSource().(type) {
	case *pb.PipelineConfig_Document:
		if len(source.Document) == 0 {
			return program{}, invalid("pipeline.document", "it is empty")
		}
		return program{document: source.Document, name: "document"}, nil
	case *pb.PipelineConfig_Name:
		return s.named(source.Name)
	case *pb.PipelineConfig_Digest:
		return s.byDigest(ctx, source.Digest)
	}
	if config != nil {
		return program{}, invalid("pipeline", "give a document, a name or a digest")
	}
	return program{}, nil
}

// programOrDefault is for those who name none.
func (s *Server) programOrDefault(ctx context.Context, config *pb.PipelineConfig) (program, error) {
	if config == nil && s.o.Default != "" {
		return s.named(s.o.Default)
	}
	return s.program(ctx, config)
}

func (s *Server) named(name string) (program, error) {
	if s.o.Pipelines == nil {
		return program{}, tipstaff.Errorf(tipstaff.PipelineNotFound, "there is no pipeline %q: this server has none", name)
	}
	file, err := s.o.Pipelines.File(name)
	return program{file: file}, err
}

// mostKnown is how many of a caller's own runs are looked through for a document.
const mostKnown = 1000

// byDigest finds a document that the server has met before: one of its own, or one
// that a run of the caller was made of.
func (s *Server) byDigest(ctx context.Context, digest string) (program, error) {
	p, found, err := s.ownByDigest(ctx, digest)
	if found || err != nil {
		return p, err
	}
	req := tipstaff.ListRequest{Limit: 200}
	for seen := 0; seen < mostKnown; {
		page, err := s.svc.List(ctx, req)
		if err != nil {
			return program{}, err
		}
		for _, run := range page.Runs {
			if run.Pipeline != nil && run.Program.Digest == digest {
				document, err := s.svc.Artifact(ctx, run.ID, digest)
				return program{document: document, name: "document"}, err
			}
		}
		if page.Next.IsZero() {
			break
		}
		seen, req.Before = seen+len(page.Runs), page.Next
	}
	return program{}, tipstaff.Errorf(tipstaff.PipelineNotFound, "no pipeline with the digest %s was met here", digest)
}

func (s *Server) ownByDigest(ctx context.Context, digest string) (program, bool, error) {
	if s.o.Pipelines == nil {
		return program{}, false, nil
	}
	names, err := s.o.Pipelines.Names()
	if err != nil {
		return program{}, false, err
	}
	for _, name := range names {
		p, err := s.named(name)
		if err != nil {
			return program{}, false, err
		}
		start := tipstaff.StartRequest{File: p.file}
		if tried, err := s.svc.Validate(ctx, tipstaff.ValidateRequest{Start: &start}); err == nil && tried.Program.Digest == digest {
			return p, true, nil
		}
	}
	return program{}, false, nil
}
