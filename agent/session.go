package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// SessionInvalid is the code of a conversation that no model may be given.
const SessionInvalid tipstaff.Code = "session_invalid"

// Session is a conversation over several turns.
type Session struct {
	ID       string
	Created  time.Time
	Updated  time.Time
	Messages []Message
}

// Append adds what was said, at that time.
func (s *Session) Append(at time.Time, messages ...Message) {
	s.Messages = append(s.Messages, messages...)
	s.Updated = at
}

// Valid reports what is wrong with the conversation; see [Valid].
func (s *Session) Valid() error { return Valid(s.Messages) }

// Valid checks that models will take a conversation: roles are known, ids of calls
// are there and unique, and all results of a message stand right behind it, one
// for each call. Its errors have the code session_invalid.
func Valid(messages []Message) error {
	seen := map[string]bool{}
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role != FromTool && len(open) > 0 {
			return invalidSession("message %d comes before all calls of the one before have their results", i+1)
		}
		switch m.Role {
		case User, Assistant:
		case FromTool:
			if !open[m.CallID] {
				return invalidSession("message %d is the result of a call %q that the message before did not make", i+1, m.CallID)
			}
			delete(open, m.CallID)
		default:
			return invalidSession("message %d has the role %q: there are user, assistant and tool", i+1, string(m.Role))
		}
		if len(m.Calls) > 0 && m.Role != Assistant {
			return invalidSession("message %d makes calls and is not the assistant's", i+1)
		}
		for _, c := range m.Calls {
			if c.ID == "" || seen[c.ID] {
				return invalidSession("message %d has a call whose id %q is empty or stands twice", i+1, c.ID)
			}
			seen[c.ID], open[c.ID] = true, true
		}
	}
	if len(open) > 0 {
		return invalidSession("the last message makes calls that have no results")
	}
	return nil
}

func invalidSession(format string, args ...any) error {
	return tipstaff.Errorf(SessionInvalid, format, args...)
}

// maxLine is the most bytes that a line of a saved session may have.
const maxLine = 4 << 20

// Types of the lines of a saved session.
const (
	lineHeader  = "session.header"
	lineMessage = "session.message"
)

type headerLine struct {
	Type    string    `json:"type"`
	ID      string    `json:"id"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

type messageLine struct {
	Type string `json:"type"`
	Message
}

// Save writes the session as JSON Lines: a header, then one line for each message.
func (s *Session) Save(w io.Writer) error {
	if err := s.Valid(); err != nil {
		return err
	}
	lines := []json.RawMessage{flow.JSON(headerLine{lineHeader, s.ID, s.Created.UTC(), s.Updated.UTC()})}
	for i, m := range s.Messages {
		line := flow.JSON(messageLine{lineMessage, m})
		if len(line) > maxLine {
			return invalidSession("message %d has %d bytes: %d are the most that can be saved", i+1, len(line), maxLine)
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Load reads what Save wrote. Lines of types that it does not know are skipped.
// What is no session, or not a valid one, is session_invalid.
func Load(r io.Reader) (*Session, error) {
	s, headed, n := &Session{}, false, 0
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine+len("\r\n"))
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var kind struct {
			Type string `json:"type"`
		}
		var header headerLine
		var message messageLine
		if err := json.Unmarshal(lines.Bytes(), &kind); err != nil {
			return nil, invalidSession("line %d is not a JSON object: %v", n, err)
		}
		var err error
		switch {
		case kind.Type == "":
			return nil, invalidSession("line %d has no type", n)
		case kind.Type == lineHeader && headed:
			return nil, invalidSession("line %d is a second header", n)
		case kind.Type == lineHeader:
			err = json.Unmarshal(lines.Bytes(), &header)
			headed = true
			s.ID, s.Created, s.Updated = header.ID, header.Created, header.Updated
		case kind.Type == lineMessage && !headed:
			return nil, invalidSession("line %d comes before the header", n)
		case kind.Type == lineMessage:
			err = json.Unmarshal(lines.Bytes(), &message)
			s.Messages = append(s.Messages, message.Message)
		}
		if err != nil {
			return nil, invalidSession("line %d: %v", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, invalidSession("line %d has more than %d bytes", n+1, maxLine)
	case err != nil:
		return nil, err
	case !headed:
		return nil, invalidSession("there is no header")
	}
	return s, s.Valid()
}
