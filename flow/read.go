package flow

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tipstaff/tipstaff/canon"
)

// Bodies are read as the engine writes them, without reflection, which dominated loading and
// replaying. What was written otherwise, or says more, goes the ordinary way: a reader that
// gives up has decided nothing.

// ReadEffect reads the body of an effect.intended, failed, suspended or finished.
func ReadEffect(body json.RawMessage) (Effect, error) { return readAs[Effect](body) }

func (b *Effect) member(name, value []byte) (ok bool) {
	switch string(name) {
	case "name":
		return plainText(value, &b.Name)
	case "class":
		return plainText(value, &b.Class)
	case "attempt":
		var n int64
		ok = plainNumber(value, &n)
		b.Attempt = int(n)
		return ok && int64(b.Attempt) == n
	case "digest":
		return plainText(value, &b.Digest)
	case "input":
		b.Input = bytes.Clone(value)
	case "reserve":
		return plainUse(value, &b.Reserve)
	case "error":
		if b.Error != nil {
			return false
		}
		b.Error = new(Error)
		return canon.Plain(value, b.Error.member)
	case "value":
		b.Value = bytes.Clone(value)
	case "ms":
		b.Ms = new(int64)
		return plainNumber(value, b.Ms)
	case "use":
		return plainUse(value, &b.Use)
	case "held":
		return plainUse(value, &b.Held)
	case "wanted":
		return plainUse(value, &b.Wanted)
	case "by":
		return plainText(value, &b.By)
	case "retry_at":
		return b.RetryAt.UnmarshalJSON(value) == nil
	default:
		return false
	}
	return true
}

func (e *Error) member(name, value []byte) (ok bool) {
	switch string(name) {
	case "code":
		return plainText(value, &e.Code)
	case "message":
		return plainText(value, &e.Message)
	case "bound":
		return plainText(value, &e.Bound)
	case "whole":
		return plainText(value, &e.Whole)
	case "retry":
		e.Retry = string(value) == "true"
		return e.Retry
	case "not_sent":
		e.NotSent = string(value) == "true"
		return e.NotSent
	case "answered":
		e.Answered = string(value) == "true"
		return e.Answered
	}
	return false
}

func (b *GateOpened) member(name, value []byte) (ok bool) {
	switch string(name) {
	case "gate":
		return plainText(value, &b.Gate)
	case "gate_kind":
		return plainText(value, &b.Kind)
	case "question":
		return plainText(value, &b.Question)
	case "subject":
		b.Subject = bytes.Clone(value)
		return true
	case "actions":
		if b.Actions != nil {
			return false
		}
		for text := range canon.Elements(value) {
			b.Actions = append(b.Actions, "")
			if !plainText(text, &b.Actions[len(b.Actions)-1]) {
				return false
			}
		}
		return len(b.Actions) > 0
	case "deny":
		return plainText(value, &b.Deny)
	case "digest":
		return plainText(value, &b.Digest)
	case "expires_at":
		return b.ExpiresAt.UnmarshalJSON(value) == nil
	}
	return false
}

func (b *GateResolved) member(name, value []byte) (ok bool) {
	switch string(name) {
	case "gate":
		return plainText(value, &b.Gate)
	case "action":
		return plainText(value, &b.Action)
	case "answer":
		b.Answer = bytes.Clone(value)
		return true
	case "feedback":
		return plainText(value, &b.Feedback)
	case "note":
		return plainText(value, &b.Note)
	case "subject_digest":
		return plainText(value, &b.SubjectDigest)
	case "via":
		return plainText(value, &b.Via)
	case "client":
		return plainText(value, &b.Client)
	case "on_behalf_of":
		return plainText(value, &b.OnBehalfOf)
	}
	return false
}

func (b *GateTaken) member(name, value []byte) (ok bool) {
	switch string(name) {
	case "gate":
		return plainText(value, &b.Gate)
	case "seq":
		return plainNumber(value, &b.Seq)
	}
	return false
}

func (b *TimerSet) member(name, value []byte) (ok bool) {
	return string(name) == "until" && b.Until.IsZero() && b.Until.UnmarshalJSON(value) == nil
}

func (b *TimerFired) member(name, value []byte) (ok bool) {
	return string(name) == "t" && b.T.IsZero() && b.T.UnmarshalJSON(value) == nil
}

// readAs reads a body by its members, or the ordinary way.
func readAs[T any, P interface {
	*T
	member(name, value []byte) bool
}](body json.RawMessage) (b T, err error) {
	if !canon.Plain(body, P(&b).member) {
		b = *new(T)
		err = json.Unmarshal(body, &b)
	}
	return b, err
}

// plainText takes a text without escapes.
func plainText[T ~string](value []byte, into *T) bool {
	if len(value) < 2 || value[0] != '"' || *into != "" {
		return false
	}
	*into = T(value[1 : len(value)-1])
	return canon.IsPlain(value[1 : len(value)-1])
}

func plainNumber(value []byte, into *int64) bool {
	n, err := strconv.ParseInt(string(value), 10, 64)
	*into = n
	return err == nil && (len(value) == 1 || value[0] >= '1' && value[0] <= '9')
}

func plainUse(value []byte, into *Use) bool {
	if *into != nil {
		return false
	}
	*into = Use{}
	return canon.Plain(value, func(name, value []byte) bool {
		var n int64
		ok := plainNumber(value, &n)
		(*into)[string(name)] = n
		return ok && canon.IsPlain(name)
	})
}
