package tipstaff

import (
	"context"
	"time"
)

// Classifier tells whether replacing one program by another changes what was
// agreed to. It needs no run and writes nothing.
type Classifier interface {
	// Classify compares two plans. Documents that are no valid plans are
	// invalid_program, with the problems of both.
	Classify(context.Context, ClassifyRequest) (Classification, error)
}

// ClassifyRequest names what is compared.
type ClassifyRequest struct {
	Old, New Source
	Manifest *Source   // tells the effect classes of tools; nil: the workspace's tipstaff.yaml, if there is one
	Now      time.Time // from which deadlines are seen; zero: the present
}

// Source is a document as it was written: YAML or JSON.
type Source struct {
	Name string // of the file, for messages
	Text []byte
}

// Classification says whether a change is material: if it is, whoever accepted
// the old terms must accept the new ones too.
type Classification struct {
	Material bool     `json:"material"`
	Reasons  []Reason `json:"reasons"` // in the order of the rules, then by detail; never nil
}

// Reason is one thing that makes a change material: the rule that it meets, and
// what has changed.
type Reason struct {
	Rule   string `json:"rule"`
	Detail string `json:"detail"`
}
