package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff/document"
)

// Freeze is the whole skill as one document in RFC 8785 form: its manifest, and
// the text of SKILL.md and of plan.yaml. Thaw reads it back.
func (s *Skill) Freeze() []byte {
	parts := []document.Member{textMember("prose", string(s.document))}
	if s.Plan != nil {
		parts = append(parts, textMember("plan", string(s.Plan)))
	}
	return s.with(parts)
}

// Thaw reads what Freeze wrote, and nothing else: bytes in another form, or of a
// skill that would not pass Load, are an error.
func Thaw(frozen []byte) (*Skill, error) {
	var f struct {
		Manifest json.RawMessage `json:"manifest"`
		Prose    *string         `json:"prose"`
		Plan     *string         `json:"plan"`
	}
	if err := document.UnmarshalStrict(frozen, &f); err != nil {
		return nil, fmt.Errorf("the frozen skill cannot be read: %w", err)
	}
	if f.Manifest == nil || f.Prose == nil {
		return nil, errors.New("the frozen skill has no manifest or no prose")
	}
	s := &Skill{}
	ps := &document.Problems{}
	manifest, p := document.Read(f.Manifest, len(f.Manifest))
	if p != nil {
		return nil, fmt.Errorf("the manifest of the frozen skill cannot be read: %s", p.Message)
	}
	s.decode(ps, manifest)
	s.readDocument(ps, []byte(*f.Prose))
	if f.Plan != nil {
		s.Plan = []byte(*f.Plan)
	}
	if len(*ps) > 0 {
		return nil, fmt.Errorf("the frozen skill is not valid: %s", (*ps)[0].Message)
	}
	if !bytes.Equal(s.Freeze(), frozen) {
		return nil, errors.New("the frozen skill is not in its canonical form")
	}
	return s, nil
}
